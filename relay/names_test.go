package relay_test

import (
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// TestManyNames: B37, B40: with its default limits of size a node takes a client that
// comes back with the versions of 50,000 resources, which is more than gRPC
// takes by default, and tells it only what has changed.
func TestManyNames(t *testing.T) {
	n := 50_000
	if detector {
		n = 10_000 // it is slow, and the size matters without it only
	}
	for _, variant := range []config.Variant{config.SotW, config.Delta} {
		t.Run("origin="+string(variant), func(t *testing.T) {
			origin := xdstest.NewStateOrigin(t, func(*corev3.Node) string { return "" })
			names, resources := make([]string, n), make([]proto.Message, n)
			for i := range names {
				names[i] = fmt.Sprintf("outbound|8080|v1|service-%05d.a-namespace-of-usual-length.svc.cluster.local", i)
				resources[i] = xdstest.Synthetic(xdstest.EndpointType, names[i], 1)
			}
			origin.Set("", resources...)
			cfg := testConfig()
			cfg.Admin.Address = ""
			cfg.Downstream.FirstRequestTimeout = time.Minute // the race detector makes such requests slow
			cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{origin.Addr()}, variant
			if variant == config.SotW {
				cfg.Upstream.MaxRequestSize = 4<<20 - 1<<10 // SotW requests cannot be divided; servers accept 4 MiB
			}
			conn := xdstest.Dial(t, start(t, cfg).Addr())

			// By hand, since the scripted client remembers names for SotW.
			open := func(held map[string]string) *xdstest.Stream {
				s := conn.Open(xdstest.Delta)
				s.Send(&discoveryv3.DeltaDiscoveryRequest{
					Node: conn.Node, TypeUrl: xdstest.EndpointType, ResourceNamesSubscribe: names, InitialResourceVersions: held,
				})
				return s
			}
			first := open(nil)
			held := make(map[string]string, n)
			for len(held) < n {
				f := first.Recv(t)
				if size := proto.Size(f.Raw); size >= 4<<20 {
					t.Fatalf("a frame of %d bytes", size)
				}
				for _, r := range f.Resources {
					held[r.Name] = r.Version
				}
				first.Ack(f)
			}
			first.Cancel()

			again := open(held)
			again.Quiet(t, xdstest.QuietWindow)
			origin.Set("", xdstest.Synthetic(xdstest.EndpointType, names[7], 2))
			f := again.Recv(t)
			if len(f.Resources) != 1 || f.Resources[0].Name != names[7] || len(f.Removed) > 0 {
				t.Fatalf("expected just %s: %s", names[7], f)
			}
			again.Ack(f)
			again.Quiet(t, xdstest.QuietWindow)
		})
	}
}
