package fanout

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"
)

// TestKeepalive: a client that pings every ten seconds keeps its connection, with an idle stream
// and without any (B41).
func TestKeepalive(t *testing.T) {
	for _, test := range []struct {
		name   string
		stream bool
		server []grpc.ServerOption // after those of the server under test
		want   connectivity.State
	}{
		{"without streams", false, nil, connectivity.Ready},
		{"with an idle stream", true, nil, connectivity.Ready},
		// The events that the test would see if the server refused the pings.
		{"a server that minds", false, []grpc.ServerOption{
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Minute, PermitWithoutStream: true}),
		}, connectivity.Idle},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSilentWorld(t, func(c *Config) { c.FirstRequestTimeout = time.Hour })
				l := bufconn.Listen(1 << 16)
				gs := grpc.NewServer(append(w.srv.ServerOptions(), test.server...)...)
				w.srv.Register(gs)
				go func() { _ = gs.Serve(l) }()
				defer gs.Stop()
				cc, err := grpc.NewClient("passthrough:///relay", grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
					grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}))
				if err != nil {
					t.Fatal(err)
				}
				defer cc.Close()
				cc.Connect()
				if test.stream {
					if _, err := cc.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
						"/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				for at := time.Duration(0); at < 5*time.Minute; at += time.Second {
					if got := cc.GetState(); got != connectivity.Ready {
						if got != test.want {
							t.Errorf("after %v of pings the connection is %v", at, got)
						}
						return
					}
					time.Sleep(time.Second) //nolint:forbidigo // virtual time
					synctest.Wait()
				}
				if test.want != connectivity.Ready {
					t.Errorf("the connection is still %v, so this shows nothing", cc.GetState())
				}
			})
		})
	}
}
