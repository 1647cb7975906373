package xdstest

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/xds"
)

// TestRealClient: grpc-go's own xDS client takes what GRPCService builds, from
// the real control plane and from the automatic origin, calls the backends and
// follows a change.
func TestRealClient(t *testing.T) {
	backends := Backends(t, 2)
	cp, o := NewControlPlane(t, nil), NewStateOrigin(t, nil)
	version := 0
	set := func(backend *Backend) {
		version++
		service := GRPCService("svc", backend.Addr())
		cp.SetSnapshot(t, "demo", fmt.Sprint(version), service...)
		o.Set("", service...)
	}
	for what, addr := range map[string]string{"control plane": cp.Addr(), "automatic origin": o.Addr()} {
		t.Run(what, func(t *testing.T) {
			set(backends[0])
			resolver, err := xds.NewXDSResolverWithConfigForTesting(fmt.Appendf(nil, `{
				"xds_servers": [{"server_uri": %q, "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}],
				"node": {"id": "c1", "cluster": "demo", "locality": {"region": "r", "zone": "z"}}}`, addr))
			if err != nil {
				t.Fatal(err)
			}
			cc, err := grpc.NewClient("xds:///svc", grpc.WithResolvers(resolver), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cc.Close() }()
			answers := func(b *Backend) func() bool {
				return func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), Patience)
					defer cancel()
					who, err := WhoAnswers(ctx, cc)
					if err != nil {
						t.Fatalf("call: %v", err)
					}
					return who == b.Name
				}
			}
			Eventually(t, "the first backend", answers(backends[0]))
			set(backends[1])
			Eventually(t, "the second backend", answers(backends[1]))
		})
	}
	if backends[0].Calls() == 0 || o.Counts().Nacks+cp.Counts().Nacks != 0 {
		t.Errorf("calls %d, origin %+v, control plane %+v", backends[0].Calls(), o.Counts(), cp.Counts())
	}
}
