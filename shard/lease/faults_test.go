package lease_test

import (
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
	"xdsrelay/shard/redistest"
)

// fault is a fault of Redis.
type fault struct {
	name  string
	calls time.Duration // how long a call may take
	on    func(*redistest.Server, *xdstest.Network)
	off   func(*redistest.Server, *xdstest.Network) // nil if the fault ends at once
}

// tier is a tier with the fault.
type tier struct {
	fault
	server *redistest.Server
	proxy  *xdstest.Network
	nodes  []*node
	stop   []func()
}

// term is a lease that every node can renew in time, and whose end a test can wait for.
const term = 6 * time.Second

// join makes a node with this name a member of the tier.
func (s *tier) join(t *testing.T, name string) *node {
	t.Helper()
	url := strings.Replace(s.server.URL(), s.server.Addr(), s.proxy.Addr(), 1)
	n := join(t, url, shard.Member{Name: s.name + " " + name}, term, s.calls)
	s.nodes = append(s.nodes, n)
	return n
}

// see waits until all nodes see those with these names.
func (s *tier) see(t *testing.T, names ...string) {
	t.Helper()
	for i := range names {
		names[i] = s.name + " " + names[i]
	}
	for _, n := range s.nodes {
		n.sees(names...)
	}
}

// TestFaults: whatever happens to Redis, and for however long, no node disappears from any view
// while it runs; after the fault, nodes that join and nodes that die are noticed again.
func TestFaults(t *testing.T) {
	t.Parallel() // mostly waits
	var tiers []*tier
	for _, f := range []fault{
		{"flushed", patience, func(s *redistest.Server, _ *xdstest.Network) { s.Flush() }, nil},
		{"restarted", time.Second, func(s *redistest.Server, _ *xdstest.Network) { s.Restart() }, nil},
		{"connections lost", time.Second, func(s *redistest.Server, _ *xdstest.Network) { s.Do("CLIENT", "KILL", "TYPE", "normal") }, nil},
		{
			"dead", time.Second,
			func(s *redistest.Server, _ *xdstest.Network) { s.Kill() },
			func(s *redistest.Server, _ *xdstest.Network) { s.Start() },
		},
		{
			"stopped", 500 * time.Millisecond,
			func(s *redistest.Server, _ *xdstest.Network) { s.Pause() },
			func(s *redistest.Server, _ *xdstest.Network) { s.Resume() },
		},
		{
			"read-only", patience,
			func(s *redistest.Server, _ *xdstest.Network) { s.ReadOnly(true) },
			func(s *redistest.Server, _ *xdstest.Network) { s.ReadOnly(false) },
		},
		{
			"slow", patience,
			func(_ *redistest.Server, p *xdstest.Network) { p.Delay(time.Second / 2) },
			func(_ *redistest.Server, p *xdstest.Network) { p.Delay(0) },
		},
		{
			"too slow", 500 * time.Millisecond,
			func(_ *redistest.Server, p *xdstest.Network) { p.Delay(time.Second / 2) },
			func(_ *redistest.Server, p *xdstest.Network) { p.Delay(0) },
		},
		{
			"cut off", 500 * time.Millisecond,
			func(_ *redistest.Server, p *xdstest.Network) { p.Stall(xdstest.ToClient) },
			func(_ *redistest.Server, p *xdstest.Network) { p.Stall(0) },
		},
	} {
		tier := &tier{fault: f, server: redistest.Start(t, redistest.Config{})}
		tier.proxy = xdstest.NewNetwork(t, tier.server.Addr())
		for _, name := range []string{"a", "b", "c"} {
			tier.join(t, name)
		}
		tiers = append(tiers, tier)
	}
	for _, tier := range tiers {
		tier.see(t, "a", "b", "c")
		for _, n := range tier.nodes {
			tier.stop = append(tier.stop, n.watch(tier.name+" a", tier.name+" b", tier.name+" c"))
		}
	}
	for _, tier := range tiers {
		tier.on(tier.server, tier.proxy)
	}
	<-time.After(term * 3 / 2) // so that leases would have ended
	for _, tier := range tiers {
		if tier.off != nil {
			tier.off(tier.server, tier.proxy)
		}
		tier.join(t, "d")
	}
	for _, tier := range tiers {
		tier.see(t, "a", "b", "c", "d")
		for _, stop := range tier.stop {
			stop()
		}
	}
	for _, tier := range tiers {
		tier.nodes[3].Close()
		tier.nodes = tier.nodes[:3]
	}
	for _, tier := range tiers {
		tier.see(t, "a", "b", "c")
	}
}
