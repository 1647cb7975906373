package relay_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// seen are the connect timeouts of clusters that a client was sent, in seconds.
type seen struct {
	*xdstest.Auto

	mu  sync.Mutex
	all []int // guarded by mu
}

func newSeen(t *testing.T, addr, id string, v xdstest.Variant) *seen {
	t.Helper()
	s := &seen{}
	s.Auto = xdstest.StartAuto(t, xdstest.AutoConfig{Addr: addr, Variant: v, Node: xdstest.Node(id, "demo"), Watch: func(e xdstest.AutoEvent) {
		if e.Frame == nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range e.Frame.Resources {
			var c clusterv3.Cluster
			if err := r.Decode(&c); err != nil {
				t.Errorf("%v", err)
			}
			s.all = append(s.all, int(c.GetConnectTimeout().AsDuration()/time.Second))
		}
	}})
	s.Subscribe(xdstest.ClusterType)
	return s
}

// since are those after the first n.
func (s *seen) since(n int) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.all[n:]...)
}

func (s *seen) waitFor(t *testing.T, timeout int) {
	t.Helper()
	xdstest.Eventually(t, s.String()+" to be sent what is new", func() bool {
		all := s.since(0)
		return len(all) > 0 && all[len(all)-1] == timeout
	})
}

// behind reports whether a node knows that it is.
func (n running) behind(t *testing.T) bool {
	t.Helper()
	_, text := n.get(t, "/metrics")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "xdsrelay_tier_generation_lag") && strings.Contains(line, "Cluster") && !strings.HasSuffix(line, " 0\n") {
			return true
		}
	}
	return false
}

// TestNobodyIsSentBack: clients move from the node that owns their key to one that has
// lost touch with it, and knows from Redis that there is something newer: they are
// sent nothing older than they have (K12). When all is well again, the nodes' state
// and the heads agree.
func TestNobodyIsSentBack(t *testing.T) {
	redis := redistest.Start(t, redistest.Config{})
	origin := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	origin.Set("demo", xdstest.Cluster("c", time.Second))
	var nodes []running
	var ways []*xdstest.Network // to their peer ports
	for _, name := range []string{"a", "b"} {
		way := xdstest.NewNetwork(t, "127.0.0.1:1")
		cfg := testConfig()
		cfg.Node.Name = name
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{origin.Addr()}, config.Delta
		cfg.Tier.Redis.URL, cfg.Tier.Redis.Timeout = redis.URL(), xdstest.Patience
		cfg.Tier.Peer.Address, cfg.Tier.Peer.AdvertiseAddress = "127.0.0.1:0", way.Addr()
		cfg.Tier.NewerStateTimeout, cfg.Tier.OwnerTimeout = time.Minute, 5*time.Second // however slow the machine is
		cfg.Tier.Balance.Enabled = false
		n := start(t, cfg)
		way.Retarget(n.PeerAddr())
		nodes, ways = append(nodes, n), append(ways, way)
	}
	clients := map[int][]*seen{}
	for i, n := range nodes {
		for _, v := range []xdstest.Variant{{}, {Delta: true}} {
			clients[i] = append(clients[i], newSeen(t, n.Addr(), n.Addr()+v.String(), v))
		}
	}
	all := append(append([]*seen(nil), clients[0]...), clients[1]...)
	for _, c := range all {
		c.waitFor(t, 1)
	}
	xdstest.Eventually(t, "one node to follow the other", func() bool {
		a, _ := ways[0].Connections()
		b, _ := ways[1].Connections()
		return a+b == 1
	})
	follower := 0
	if open, _ := ways[0].Connections(); open == 1 {
		follower = 1
	}
	owner := 1 - follower
	xdstest.Eventually(t, "the heads to be there", func() bool { return len(nodes[owner].Check()) == 0 })

	ways[owner].Stall(xdstest.BothWays)
	origin.Set("demo", xdstest.Cluster("c", 2*time.Second))
	for _, c := range clients[owner] {
		c.waitFor(t, 2)
	}
	xdstest.Eventually(t, "the follower to know, or to have it by now", func() bool {
		return nodes[follower].behind(t) || clients[follower][1].since(1) != nil
	})
	for _, c := range clients[owner] {
		c.MoveTo(nodes[follower].Addr())
	}
	// Whoever has been heard has been told what there is, unless it waits.
	xdstest.Eventually(t, "all clients to be heard there", func() bool {
		_, text := nodes[follower].get(t, "/debug/streams")
		return strings.Count(text, " Cluster ") == len(all)
	})
	ways[owner].Stall(0)
	for _, c := range clients[follower] {
		c.waitFor(t, 2)
	}
	origin.Set("demo", xdstest.Cluster("c", 3*time.Second))
	for _, c := range all {
		c.waitFor(t, 3)
	}
	for _, c := range clients[owner] {
		for _, timeout := range c.since(0)[1:] {
			if timeout < 2 {
				t.Errorf("%s was sent back: %v", c, c.since(0))
			}
		}
	}
	for _, n := range nodes {
		xdstest.Eventually(t, "nothing to complain about", func() bool { return len(n.Check()) == 0 })
	}
}
