package relay_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

const tierToken = "a secret of the tier"

// tokenFile is a file with the token of a tier.
func tokenFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(strings.ReplaceAll(tierToken, " ", "-")), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestPeerToken: nodes with the token of the tier are one tier, and nobody else is
// served on the peer port, whatever is asked there.
func TestPeerToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := tokenFile(t)
		network := xdstest.NewMemory()
		w := &tierWorld{origin: network.NewStateOrigin(t, (*corev3.Node).GetCluster), keys: []string{"red"}, clients: map[string][]*xdstest.Auto{}}
		w.set("red", 1)
		w.tierRig = newTierRig(t, network, 2, func(cfg *config.Config) {
			cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{w.origin.Addr()}, config.Delta
			cfg.Tier.Peer.TokenFile = file
		})
		w.populate()
		w.converged()
		w.streams(1)

		for _, token := range []string{"", "Bearer another-secret-of-the-tier", strings.ReplaceAll(tierToken, " ", "-")} {
			conn := network.Client(t, peerAddr(0), grpc.WithPerRPCCredentials(header{token}))
			s := conn.Open(xdstest.Delta)
			s.Subscribe(xdstest.ClusterType)
			if end := s.ExpectClosed(t); end.Code() != codes.Unauthenticated {
				t.Errorf("a stream with %q ended %v", token, end)
			}
			err := conn.ClientConn().Invoke(t.Context(), "/xdsrelay.peer.v1.Peer/Ask", wrapperspb.String("status"), &wrapperspb.BytesValue{})
			if status.Code(err) != codes.Unauthenticated {
				t.Errorf("a question with %q: %v", token, err)
			}
			// Nor is anything read of what such a call might send.
			for _, method := range []string{"/xdsrelay.peer.v1.Peer/Ask", "/xdsrelay.peer.v1.Peer/AskStream"} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				unread, err := conn.ClientConn().NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
				if err != nil {
					t.Fatal(err)
				}
				if err := unread.RecvMsg(&wrapperspb.BytesValue{}); status.Code(err) != codes.Unauthenticated {
					t.Errorf("%s before a question, with %q: %v", method, token, err)
				}
				cancel()
			}
			l := conn.OpenLoad()
			_ = l.Report()
			if end := l.ExpectClosed(t); end.Code() != codes.Unauthenticated {
				t.Errorf("load reports with %q ended %v", token, end)
			}
		}
		w.check()
	})
}

// header is an authorization header.
type header struct{ value string }

func (h header) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if h.value == "" {
		return nil, nil
	}
	return map[string]string{"authorization": h.value}, nil
}

func (header) RequireTransportSecurity() bool { return false }

// otherKey is the metadata by which nodes name keys to one another.
type otherKey struct{}

func (otherKey) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"xdsrelay-key-bin": "blue", "xdsrelay-node-bin": "a"}, nil
}

func (otherKey) RequireTransportSecurity() bool { return false }

// TestClientIsNoPeer: a client that says of itself what nodes say to one another is
// served by its Node, like every other (K6).
func TestClientIsNoPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTierWorld(t, 2, config.Delta, "red", "blue")
		for _, node := range w.names {
			conn := w.network.Client(t, w.nodes[node].Addr(), grpc.WithPerRPCCredentials(otherKey{}))
			conn.Node = xdstest.Node("client", "red")
			s := conn.Open(xdstest.Delta)
			s.Subscribe(xdstest.ClusterType)
			if f := s.Recv(t); !slices.Equal(f.Names(), []string{"red-a", "red-b"}) {
				t.Errorf("it was told %v", f)
			}
		}
	})
}

// TestPeerPortNeedsAKey: who does not say which key it is about is refused.
func TestPeerPortNeedsAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTierWorld(t, 1, config.Delta, "red")
		conn := w.network.Client(t, peerAddr(0))
		s := conn.Open(xdstest.Delta)
		if end := s.ExpectClosed(t); end.Code() != codes.InvalidArgument {
			t.Errorf("it ended %v", end)
		}
	})
}

// TestLoadReportsOfATier: what clients of a key report on several nodes goes to the
// control plane as one stream, also when the key has moved.
func TestLoadReportsOfATier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := scriptedTier(t)
		l := o.ServeLoad()
		open := func(node string) *xdstest.LoadStream {
			conn := w.network.Client(t, w.nodes[node].Addr())
			conn.Node = xdstest.Node("client", "red")
			s := conn.OpenLoad()
			_ = s.Report()
			return s
		}
		report := func(s *xdstest.LoadStream, n uint64) {
			_ = s.Report(xdstest.ClusterLoad("c", xdstest.ZoneLoad("z", n, 0)))
		}
		a, b := open(w.owner), open(w.follower)
		st := l.NextStream(t)
		if node := st.Next(t).GetNode(); node.GetCluster() != "red" {
			t.Errorf("node %v", node)
		}
		st.Ask(t, xdstest.LoadTerms(time.Second))
		a.Terms(t)
		b.Terms(t)
		report(a, 1)
		report(b, 2)
		issuedTo(t, st, 3)
		if n := l.Opened(); n != 1 {
			t.Errorf("%d streams of load reports", n)
		}
		before := st
		w.roster.change(w.owner, func(m *shard.Member) { m.Draining = true })
		st = l.NextStream(t)
		st.Next(t)
		st.Ask(t, xdstest.LoadTerms(time.Second))
		before.WaitClosed(t)
		report(a, 4)
		report(b, 8)
		issuedTo(t, st, 12)
	})
}

// TestTierWithTwoOrigins: types and names with origins of their own reach the clients
// of followers as they do those of the owner, over one stream for each (G3, D11).
func TestTierWithTwoOrigins(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			network := xdstest.NewMemory()
			first, second := network.NewStateOrigin(t, (*corev3.Node).GetCluster), network.NewStateOrigin(t, (*corev3.Node).GetCluster)
			first.Set("red", xdstest.Cluster("a", time.Second), xdstest.Cluster("b", time.Second))
			second.Set("red", xdstest.Endpoints("a", "127.0.0.1:1"), xdstest.Endpoints("b", "127.0.0.1:2"))
			rig := newTierRig(t, network, 3, func(cfg *config.Config) {
				cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{first.Addr()}, variant
				cfg.Upstream.SeparateNames = []string{"Cluster"}
				other := config.NamedUpstream{Name: "second", Types: []string{"ClusterLoadAssignment"}, Upstream: cfg.Upstream}
				other.Addresses, other.SeparateNames = []string{second.Addr()}, nil
				cfg.Upstreams = append(cfg.AllUpstreams(), other)
			})
			var clients []*xdstest.Auto
			for _, node := range rig.names {
				for i, v := range everyVariant[:2] {
					c := rig.client(node, node+string(rune('0'+i)), "red", v)
					c.Subscribe(xdstest.ClusterType, "*", "b")
					c.Subscribe(xdstest.EndpointType, "a", "b")
					clients = append(clients, c)
				}
			}
			converged := func() {
				t.Helper()
				for _, c := range clients {
					is := func(u string) bool { return u == xdstest.ClusterType }
					c.WaitFor(t, "what the first origin serves", func() bool { return len(first.DifferencesOf("red", c, is)) == 0 })
					c.WaitFor(t, "what the second origin serves", func() bool {
						return len(second.DifferencesOf("red", c, func(u string) bool { return !is(u) })) == 0
					})
					c.CheckViolations(t)
				}
			}
			converged()
			xdstest.Eventually(t, "three streams in all", func() bool { return first.Counts().Open == 2 && second.Counts().Open == 1 })
			first.Set("red", xdstest.Cluster("b", 2*time.Second), xdstest.Cluster("c", time.Second))
			second.Set("red", xdstest.Endpoints("a", "127.0.0.1:3"))
			converged()
			first.Remove("red", xdstest.ClusterType, "a")
			converged()
			rig.roster.change(rig.roster.owner("red"), func(m *shard.Member) { m.Draining = true })
			first.Set("red", xdstest.Cluster("d", time.Second))
			converged()
			xdstest.Eventually(t, "three streams in all", func() bool { return first.Counts().Open == 2 && second.Counts().Open == 1 })
			rig.check()
		})
	})
}

// TestCut: a node that cannot reach the control plane says so, and its keys go to one that
// can; once it can again, they come back. Clients of both go on.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		w := &tierWorld{origin: network.NewStateOrigin(t, (*corev3.Node).GetCluster), keys: []string{"red"}, clients: map[string][]*xdstest.Auto{}}
		w.set("red", 1)
		ways := map[string]*xdstest.Network{}
		w.tierRig = newTierRig(t, network, 2, func(cfg *config.Config) {
			ways[cfg.Node.Name] = network.NewNetwork(t, w.origin.Addr())
			cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{ways[cfg.Node.Name].Addr()}, config.Delta
		})
		w.populate()
		w.converged()
		owner := w.roster.owner("red")
		ways[owner].Refuse()
		ways[owner].Cut()
		xdstest.Eventually(t, "the key has another owner", func() bool { return w.roster.owner("red") != owner })
		w.set("red", 2)
		w.converged()
		w.streams(1)
		if err := ways[owner].Accept(); err != nil {
			t.Fatal(err)
		}
		for range 20 { // its pauses grow
			time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
		}
		if got := w.roster.owner("red"); got != owner {
			t.Errorf("the key belongs to %s", got)
		}
		w.set("red", 3)
		w.converged()
		w.streams(1)
		w.check()
	})
}
