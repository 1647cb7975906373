package relay_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/xds"

	"xdsrelay/relay/bootstrap"
	"xdsrelay/relay/xdstest"
)

// TestBootstrapWithTLS: grpc-go finds a relay that asks for certificates by a bootstrap
// of ours, and calls what is configured there. Without its certificate it does not.
func TestBootstrapWithTLS(t *testing.T) {
	mesh := xdstest.NewAuthority(t, "mesh")
	backend := xdstest.NewBackend(t, "backend")
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	for i, r := range xdstest.GRPCService("svc", backend.Addr()) {
		writeResources(t, cfg.Upstream.Directory, string(rune('a'+i))+".json", r)
	}
	cfg.Listener = tlsListener(t, t.TempDir(), mesh)
	cfg.Authorization.AllowAny = true
	n := start(t, cfg)

	cert, key, ca := mesh.WriteFiles(t.TempDir(), "web")
	o := bootstrap.Options{Addresses: []string{n.Addr()}, NodeID: "web-1", Cluster: "web", TLS: bootstrap.TLS{CAFile: ca, CertFile: cert, KeyFile: key}}
	if err := call(t, o); err != nil {
		t.Errorf("with all that is asked for: %v", err)
	}
	o.TLS.CertFile, o.TLS.KeyFile = "", ""
	if call(t, o) == nil {
		t.Error("without a certificate it gets its configuration, too")
	}
}

// call makes a call as an xDS client of its own that has a bootstrap.
func call(t *testing.T, o bootstrap.Options) error {
	t.Helper()
	text, err := bootstrap.GRPC(o)
	if err != nil {
		t.Fatal(err)
	}
	resolver, err := xds.NewXDSResolverWithConfigForTesting(text)
	if err != nil {
		t.Fatal(err)
	}
	cc, err := grpc.NewClient("xds:///svc", grpc.WithResolvers(resolver), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	_, err = xdstest.WhoAnswers(ctx, cc)
	return err
}
