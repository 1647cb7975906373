package relay_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"xdsrelay/relay/authorize"
	"xdsrelay/relay/config"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// securityPage is the page that the table of TestWhoGetsWhat is on, between these
// lines.
var securityPage = filepath.Join("..", "docs", "security", "authorization.md")

const tableBegins, tableEnds = "<!-- written by go test ./relay -run TestWhoGetsWhat -update -->\n", "<!-- to here -->"

// TestWhoGetsWhat: who a client has proved to be decides what it gets, whatever it
// says of itself or asks for in the metadata of its stream; secrets are for the
// identity, and the control plane sees whose they are (K4, K6). The table in
// docs/security/authorization.md is what happens here.
func TestWhoGetsWhat(t *testing.T) {
	const identityField = "xdsrelay.identity"
	origin := xdstest.NewStateOrigin(t, func(n *corev3.Node) string {
		return n.GetCluster() + "|" + n.GetMetadata().GetFields()[identityField].GetStringValue()
	})
	for _, cluster := range []string{"web", "db"} {
		origin.Set(cluster+"|", xdstest.Cluster("cluster-of-"+cluster, time.Second), xdstest.Secret("s", "of "+cluster+" for all", "key"))
		for _, id := range []string{"web", "db", "ops"} {
			origin.Set(cluster+"|spiffe://corp/"+id, xdstest.Secret("s", "of "+cluster+" for "+id, "key"))
		}
	}
	mesh, other := xdstest.NewAuthority(t, "mesh"), xdstest.NewAuthority(t, "other")
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{origin.Addr()}
	cfg.Listener = tlsListener(t, t.TempDir(), mesh)
	local := config.DefaultListener()
	local.Address = "127.0.0.1:0"
	cfg.Listeners = append(cfg.AllListeners(), config.NamedListener{Name: "local", Listener: local})
	cfg.Authorization.Rules = []authorize.Rule{
		{Name: "own", Match: `peer.spiffe_id == "spiffe://corp/" + node.cluster`},
		{Name: "ops", Match: `peer.spiffe_id == "spiffe://corp/ops"`},
		{Name: "local", Match: `listener == "local" && node.cluster == "web"`},
	}
	n := start(t, cfg)

	secure := func(of *xdstest.Authority, id string) credentials.TransportCredentials {
		return credentials.NewTLS(mesh.ClientTLS(of, "spiffe://corp/"+id))
	}
	var b strings.Builder
	b.WriteString("| Certificate | Listener | Claimed cluster | Key in metadata | Result | Secret |\n|---|---|---|---|---|---|\n")
	for _, who := range []struct {
		name, listener string
		how            credentials.TransportCredentials
	}{
		{"`spiffe://corp/web`", config.DefaultName, secure(mesh, "web")},
		{"`spiffe://corp/db`", config.DefaultName, secure(mesh, "db")},
		{"`spiffe://corp/ops`", config.DefaultName, secure(mesh, "ops")},
		{"of another authority", config.DefaultName, secure(other, "web")},
		{"none", config.DefaultName, credentials.NewTLS(mesh.ClientTLS(nil))},
		{"none, plaintext", "local", insecure.NewCredentials()},
	} {
		for _, claim := range []string{"web", "db"} {
			for _, forged := range []string{"", "web", "db"} {
				if forged == claim {
					continue
				}
				gets := map[string]bool{}
				for _, delta := range []bool{false, true} {
					gets[asks(t, n.ListenerAddr(who.listener), claim, forged, delta, who.how)] = true
				}
				if len(gets) != 1 {
					t.Errorf("%s, %s: it depends on the variant: %v", who.name, claim, gets)
				}
				for got := range gets {
					fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", who.name, who.listener, claim, forged, got)
				}
			}
		}
	}
	if got := b.String(); strings.Count(got, "| key web |")+strings.Count(got, "| key db |") != 10 {
		t.Errorf("somebody else is let in:\n%s", got)
	}
	page, err := os.ReadFile(securityPage)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(page), tableBegins)
	old, tail, ends := strings.Cut(rest, tableEnds)
	if !ok || !ends {
		t.Fatalf("%s has no lines %q and %q", securityPage, tableBegins, tableEnds)
	}
	table := "\n" + b.String() + "\n"
	if *update {
		if err := os.WriteFile(securityPage, []byte(head+tableBegins+table+tableEnds+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		old = table
	}
	if old != table {
		t.Errorf("%s is not what happens: run `go test ./relay -run TestWhoGetsWhat -update`; now it is\n%s", securityPage, table)
	}
}

// asks tells what a client gets that says it is of a cluster, and names a key as nodes
// of a tier do to one another, unless that is "".
func asks(t *testing.T, address, claim, forged string, delta bool, how credentials.TransportCredentials) string {
	t.Helper()
	if health(t, address, how) != nil {
		return "no connection | "
	}
	naming := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if forged != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, resource.PeerKeyHeader, forged, resource.PeerNodeHeader, "relay-2")
		}
		return streamer(ctx, desc, cc, method, opts...)
	}
	c := xdstest.Dial(t, address, grpc.WithTransportCredentials(how), grpc.WithStreamInterceptor(naming))
	defer c.Close()
	c.Node = xdstest.Node("client-of-"+claim, claim)
	s := c.Open(xdstest.Variant{Delta: delta})
	s.Subscribe(xdstest.ClusterType)
	f, err := s.Next(xdstest.Patience, func(f *xdstest.Frame) bool { return f.TypeURL == xdstest.ClusterType })
	if err != nil {
		switch st := s.ExpectClosed(t); {
		case st.Code() == codes.PermissionDenied && strings.Contains(st.Message(), "tried: own, ops, local"):
			return "PERMISSION_DENIED | "
		default:
			return st.String() + " | "
		}
	}
	s.Ack(f)
	names := f.Names()
	slices.Sort(names)
	key := strings.TrimPrefix(strings.Join(names, " "), "cluster-of-")
	s.Subscribe(resource.SecretURL, "s")
	secret := s.RecvType(t, resource.SecretURL)
	r, ok := secret.Get("s")
	var m tlsv3.Secret
	if !ok || r.Decode(&m) != nil {
		t.Fatalf("%s is no secret", secret)
	}
	s.Ack(secret)
	return fmt.Sprintf("key %s | %s", key, m.GetTlsCertificate().GetCertificateChain().GetInlineString())
}
