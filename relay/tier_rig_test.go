package relay_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// roster is who is in a tier, as a test says it.
type roster struct {
	mu    sync.Mutex
	all   []shard.Member // guarded by mu
	seats []*seat        // guarded by mu

	// eye is how a node sees the others; nil for as they are. Guarded by mu.
	eye func(node string, all []shard.Member) []shard.Member
}

// seat is a node's place in a roster: the members as that node sees them.
type seat struct {
	*shard.Current

	roster *roster
	name   string
	dead   atomic.Bool // nothing is heard of it any more
}

// take makes self a member.
func (r *roster) take(self shard.Member) shard.Members {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &seat{Current: shard.NewCurrent(self), roster: r, name: self.Name}
	r.seats = append(r.seats, s)
	r.all = append(slices.DeleteFunc(r.all, func(m shard.Member) bool { return m.Name == self.Name }), self)
	r.showLocked()
	return s
}

// change changes what all see of a member.
func (r *roster) change(name string, change func(*shard.Member)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.all {
		if r.all[i].Name == name {
			change(&r.all[i])
		}
	}
	r.showLocked()
}

// look changes how the nodes see the others; nil for as they are.
func (r *roster) look(eye func(node string, all []shard.Member) []shard.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.eye = eye
	r.showLocked()
}

// drop takes a member out.
func (r *roster) drop(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(m shard.Member) bool { return m.Name == name })
	r.showLocked()
}

func (r *roster) showLocked() {
	for _, s := range r.seats {
		all := slices.Clone(r.all)
		if r.eye != nil {
			all = r.eye(s.name, all)
		}
		s.Set(all)
		s.Hear(time.Now())
	}
}

// owner is the name of the member that owns a key.
func (r *roster) owner(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, _ := shard.NewView(r.all).Owner(key)
	return m.Name
}

func (s *seat) Self() shard.Member {
	s.roster.mu.Lock()
	defer s.roster.mu.Unlock()
	for _, m := range s.roster.all {
		if m.Name == s.name {
			return m
		}
	}
	return shard.Member{Name: s.name}
}

func (s *seat) Announce(now shard.Status) {
	if s.dead.Load() {
		return
	}
	s.roster.change(s.name, func(m *shard.Member) {
		now.Draining = now.Draining || m.Draining
		m.Status = now
	})
}

func (s *seat) Leave(context.Context) error {
	if s.dead.Load() {
		return nil
	}
	s.roster.change(s.name, func(m *shard.Member) { m.Draining = true })
	return nil
}

func (s *seat) Missing() []shard.Missing { return nil }

func (s *seat) Enter() {}

func (s *seat) Close() {}

// tierRig is a tier of nodes in one process and one network.
type tierRig struct {
	t       *testing.T
	network *xdstest.Memory
	roster  *roster
	nodes   map[string]running
	configs map[string]*config.Config
	names   []string
	options relay.Options
	alter   func(*config.Config) // the configuration of each node

	resources atomic.Int64 // that clients were sent
	removed   atomic.Int64 // names that delta clients were sent as removed
}

// ownerTimeout is that of the nodes of these tests.
const ownerTimeout = 2 * time.Second

// newTierRig starts nodes a, b, … over an origin.
func newTierRig(t *testing.T, network *xdstest.Memory, n int, change func(*config.Config)) *tierRig {
	t.Helper()
	r := &tierRig{t: t, network: network, roster: &roster{}, nodes: map[string]running{}, configs: map[string]*config.Config{}, alter: change}
	r.options = relay.Options{Version: "v-test", Listen: network.Listen, Dial: network.Dial, Members: r.roster.take}
	r.grow(n)
	return r
}

// grow starts nodes until there are n. The roster, and no list, says who is in the tier.
func (r *tierRig) grow(n int) {
	r.t.Helper()
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("%c=%s", 'a'+i, peerAddr(i)))
	}
	for i := len(r.names); i < n; i++ {
		name := string(rune('a' + i))
		cfg := testConfig()
		cfg.Node.Name, cfg.Admin.Address = name, ""
		cfg.Tier.Nodes, cfg.Tier.Peer.Address, cfg.Tier.OwnerTimeout = list, peerAddr(i), ownerTimeout
		r.alter(cfg)
		r.configs[name], r.names = cfg, append(r.names, name)
		r.start(name)
	}
}

func peerAddr(i int) string { return fmt.Sprintf("127.0.0.1:%d", 9001+i) }

// start starts a node that is not there.
func (r *tierRig) start(name string) {
	r.t.Helper()
	r.nodes[name] = startWith(r.t, r.configs[name], r.options)
}

// kill ends a node as if its machine had gone: its connections break, and who is a
// member still takes it for one.
func (r *tierRig) kill(name string) {
	r.t.Helper()
	r.roster.mu.Lock()
	for _, s := range r.roster.seats {
		if s.name == name {
			s.dead.Store(true)
		}
	}
	r.roster.mu.Unlock()
	r.nodes[name].stop()
	r.nodes[name].ended(r.t)
}

// client is a client of a key that is on a node.
func (r *tierRig) client(node, id, key string, v xdstest.Variant) *xdstest.Auto {
	r.t.Helper()
	return xdstest.StartAuto(r.t, xdstest.AutoConfig{
		Addr: r.nodes[node].Addr(), Variant: v, Node: xdstest.Node(id, key), DialOptions: []grpc.DialOption{r.network.Option()},
		Watch: func(e xdstest.AutoEvent) {
			if e.Frame != nil {
				r.resources.Add(int64(len(e.Frame.Resources)))
				r.removed.Add(int64(len(e.Frame.Removed)))
			}
		},
	})
}

// check holds that no node contradicts itself.
func (r *tierRig) check() {
	r.t.Helper()
	for name, n := range r.nodes {
		for _, wrong := range n.Check() {
			r.t.Errorf("node %s: %s", name, wrong)
		}
	}
}

// originVariants runs a test with an origin of either variant.
func originVariants(t *testing.T, f func(t *testing.T, variant config.Variant)) {
	for _, variant := range []config.Variant{config.SotW, config.Delta} {
		t.Run("origin="+string(variant), func(t *testing.T) { f(t, variant) })
	}
}
