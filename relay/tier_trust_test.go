package relay_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay"
	"xdsrelay/relay/admin"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// TestRedisNamesNoNode: who can write to Redis, and has no token, makes no node connect
// with an address of its choice: the node there would be sent the token, and would serve
// the clients. Nodes with the token are a tier as before.
func TestRedisNamesNoNode(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Config{})
	origin := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	origin.Set("red", xdstest.Cluster("a", time.Second))

	stranger := xdstest.NewStranger(t)
	for i := range 30 { // one of which owns the key
		name := fmt.Sprintf("node-of-nobody-%d", i)
		redis.Do("HSET", "xdsrelay:{members}", name, fmt.Sprintf(`99999999999999 60000 1 i {"name":%q,"peer":%q}`, name, stranger.Addr()))
	}

	file := tokenFile(t)
	var nodes []running
	for _, name := range []string{"a", "b"} {
		cfg := testConfig()
		cfg.Node.Name, cfg.Upstream.Addresses = name, []string{origin.Addr()}
		cfg.Tier.Redis.URL, cfg.Tier.Peer.Address, cfg.Tier.Peer.TokenFile = redis.URL(), "127.0.0.1:0", file
		nodes = append(nodes, start(t, cfg))
	}
	for _, n := range nodes {
		xdstest.Eventually(t, "a tier of two nodes", func() bool {
			var now admin.NodesNow
			_, text := n.get(t, "/tier/nodes?format=json")
			return json.Unmarshal([]byte(text), &now) == nil && len(now.Members.Members) == 2
		})
		c := xdstest.Dial(t, n.Addr())
		c.Node = xdstest.Node("client-of-"+n.Addr(), "red")
		s := c.Open(xdstest.Delta)
		s.Subscribe(xdstest.ClusterType)
		if f := s.Recv(t); !slices.Equal(f.Names(), []string{"a"}) {
			t.Errorf("a client was sent %v", f)
		}
	}
	xdstest.Eventually(t, "one stream to the control plane", func() bool { return origin.Counts().Open == 1 })
	stranger.CheckAlone(t)
}

// TestNodeWithoutPortsIsNoMember: a node that cannot bind one of its ports is never seen
// by the others, and so owns none of their keys.
func TestNodeWithoutPortsIsNoMember(t *testing.T) {
	redis := redistest.Start(t, redistest.Config{})
	cfg := testConfig()
	cfg.Node.Name, cfg.Upstream.Addresses = "b", []string{"127.0.0.1:1"}
	cfg.Tier.Redis.URL, cfg.Tier.Peer.Address = redis.URL(), "127.0.0.1:0"
	cfg.Metrics.Address = "127.0.0.1:9"
	_, err := relay.New(cfg, relay.Options{Listen: func(address string) (net.Listener, error) {
		if address != cfg.Metrics.Address {
			return net.Listen("tcp", address)
		}
		// The other ports are bound; this one takes its time and fails.
		for range 50 {
			if redis.Do("HEXISTS", "xdsrelay:{members}", "b") != int64(0) {
				t.Error("b is a member, and cannot be reached")
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		return nil, syscall.EADDRINUSE
	}})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("the node started: %v", err)
	}
}

// TestDrainedNodeIsNotGone: a node that drains and ends between two looks at the tier is
// no node that disappeared.
func TestDrainedNodeIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 3, "red") // without clients, so that the drain is over at once
		live := func() (l ops.Live) {
			time.Sleep(1100 * time.Millisecond) //nolint:forbidigo // virtual time: the next answer is another
			w.order("a", http.MethodGet, "/api/v1/live", &l)
			return l
		}
		if l := live(); len(l.Nodes) != 3 {
			t.Fatalf("%+v", l.Nodes)
		}
		w.nodes["b"].stop()
		w.nodes["b"].ended(t)
		w.roster.drop("b")
		for range 3 {
			l := live()
			if len(l.Nodes) != 2 || slices.ContainsFunc(l.Warnings, func(w ops.Warning) bool { return w.Node == "b" }) {
				t.Errorf("nodes %+v, warnings %+v", l.Nodes, l.Warnings)
			}
		}
	})
}
