package relay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"pgregory.net/rapid"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// keysOfTest are two aggregation keys; the names of each start with the key, so
// that a resource that strays is seen.
var keysOfTest = []string{"red", "blue"}

func universe(key string) map[string][]string {
	names := func(kind string) (out []string) {
		for i := range 4 {
			out = append(out, fmt.Sprintf("%s-%s%d", key, kind, i))
		}
		return out
	}
	return map[string][]string{
		xdstest.ClusterType:  names("c"),
		xdstest.EndpointType: names("c"), // E3 finds them by the cluster's name
		xdstest.ListenerType: names("l"),
		xdstest.RouteType:    names("r"),
		xdstest.SecretType:   names("s"),
	}
}

// member is a client of one key, and what it does to make things hard.
type member struct {
	*xdstest.Auto
	key     string
	name    string // of its node
	variant xdstest.Variant
	rejects atomic.Bool
	lazy    atomic.Bool
	strays  atomic.Int32 // resources of another key that it was sent
}

// GoString names the member where a case is logged.
func (m *member) GoString() string { return m.name }

func newMember(t xdstest.TB, addr, key string, i int, v xdstest.Variant, options ...grpc.DialOption) *member {
	m := &member{key: key, name: fmt.Sprintf("%s-%d", key, i), variant: v}
	pause := func(ctx context.Context) {
		if m.lazy.Load() {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	m.Auto = xdstest.StartAuto(t, xdstest.AutoConfig{
		Addr: addr, Variant: v, Node: xdstest.Node(m.name, key), DialOptions: options,
		BeforeRead: pause,
		BeforeAck:  func(ctx context.Context, _ *xdstest.Frame) { pause(ctx) },
		Nack: func(f *xdstest.Frame) string {
			for _, r := range f.Resources {
				if !strings.HasPrefix(r.Name, key) {
					m.strays.Add(1)
				}
			}
			if m.rejects.Load() {
				return "not today"
			}
			return ""
		},
	})
	return m
}

// TestConvergence: whatever origin, network and clients do, in the end each
// client holds exactly what the origin serves its key (C14, D12), and nobody
// ever got a resource of another key (K6). Each client looks at each frame for
// breaches of B4, B5, B29, B30, B31 and B34.
func TestConvergence(t *testing.T) {
	for _, variant := range []config.Variant{config.SotW, config.Delta} {
		t.Run("origin="+string(variant), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { converge(t, variant, nil) })
		})
	}
}

// TestConvergenceWithTwoOrigins: the same where some types come from an origin of
// their own, and both have something else to say about the other's (G3); and maybe
// the names of clusters have a stream apart from their wildcard (D11).
func TestConvergenceWithTwoOrigins(t *testing.T) {
	for _, variant := range []config.Variant{config.SotW, config.Delta} {
		t.Run("origin="+string(variant), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { converge(t, variant, []string{"ClusterLoadAssignment", "Secret"}) })
		})
	}
}

// converge plays with a relay over an origin, and another one for the types
// elsewhere, if there are any.
func converge(t *rapid.T, variant config.Variant, elsewhere []string) {
	o := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	up := xdstest.NewNetwork(t, o.Addr())
	origins, ups := []*xdstest.StateOrigin{o}, []*xdstest.Network{up}
	serves := func(i int) func(typeURL string) bool {
		return func(typeURL string) bool {
			return (i == 1) == slices.ContainsFunc(elsewhere, func(t string) bool { return strings.HasSuffix(typeURL, "."+t) })
		}
	}
	var separate []string
	if elsewhere != nil {
		second := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
		origins, ups = append(origins, second), append(ups, xdstest.NewNetwork(t, second.Addr()))
		separate = rapid.SampledFrom([][]string{nil, {"Cluster"}}).Draw(t, "separate names")
	}
	node, stop := startFor(t, func(cfg *config.Config) {
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{up.Addr()}, variant
		cfg.Upstream.ResourceTimeout = 100 * time.Millisecond
		cfg.Upstream.Backoff.Initial, cfg.Upstream.Backoff.Max = 10*time.Millisecond, 30*time.Millisecond
		cfg.Cache.Linger = rapid.SampledFrom([]time.Duration{0, 30 * time.Millisecond, time.Minute}).Draw(t, "linger")
		cfg.Cache.ConfirmTimeout = 100 * time.Millisecond
		cfg.Limits.MaxResponseSize = rapid.SampledFrom([]config.Size{4 << 20, 1 << 10}).Draw(t, "max send size") // B40
		cfg.Aggregation.PrivateTypes = rapid.SampledFrom([][]string{nil, {"Secret"}}).Draw(t, "private types")   // K6
		if elsewhere != nil {
			second := config.NamedUpstream{Name: "second", Types: elsewhere, Upstream: cfg.Upstream}
			second.Addresses = []string{ups[1].Addr()}
			cfg.Upstreams = append(cfg.AllUpstreams(), second)
		}
		cfg.Upstream.SeparateNames = separate
	})
	defer stop()
	down := xdstest.NewNetwork(t, node.Addr())
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))

	var members []*member
	for i, v := range []xdstest.Variant{
		xdstest.SotW, xdstest.Delta, xdstest.SotW, xdstest.Delta,
		{Service: xdstest.ClusterType}, {Delta: true, Service: xdstest.EndpointType},
	} {
		members = append(members, newMember(t, down.Addr(), keysOfTest[i%2], i, v))
	}
	for range rapid.IntRange(5, 40).Draw(t, "steps") {
		step(t, random, origins, ups, down, rapid.SampledFrom(members).Draw(t, "member"))
	}

	for _, m := range members {
		m.rejects.Store(false)
		m.lazy.Store(false)
	}
	for _, up := range ups {
		_ = up.Heal()
	}
	_ = down.Heal()
	for i := range origins {
		refresh(origins[i], random, variant)
	}
	for _, m := range members {
		for i, o := range origins {
			m.WaitFor(t, fmt.Sprintf("what origin %d serves", i), func() bool { return len(o.DifferencesOf(m.key, m.Auto, serves(i))) == 0 })
		}
		m.CheckViolations(t)
		if n := m.strays.Load(); n > 0 {
			t.Fatalf("a client of key %q was sent %d resources of another key", m.key, n)
		}
	}
	for _, wrong := range node.Check() {
		t.Errorf("check: %s", wrong)
	}
	for _, m := range members {
		m.Close()
	}
	down.Close()
	for i := range origins {
		ups[i].Close()
		origins[i].Stop()
	}
}

// refresh changes everything that an origin serves: what was rejected is not sent
// again unless it changes (B14), and that holds for a removal, too.
func refresh(o *xdstest.StateOrigin, random *rand.Rand, variant config.Variant) {
	for _, key := range keysOfTest {
		served := make(map[string]bool) // by type: the first name
		for u, names := range universe(key) {
			served[u] = len(o.Expected(key, u, names[0])) > 0
		}
		o.Update(key, func(c *xdstest.Change) {
			for u, names := range universe(key) {
				for i, n := range names {
					// A SotW origin cannot say that other types lose a name (D4).
					if i == 0 && served[u] && (variant == config.Delta || xdstest.FullState(u)) {
						c.Remove(u, n)
					} else {
						c.Set(xdstest.Synthetic(u, n, 1000+random.IntN(1000)))
					}
				}
			}
		})
	}
}

// step does one thing to the world.
func step(t *rapid.T, random *rand.Rand, origins []*xdstest.StateOrigin, ups []*xdstest.Network, down *xdstest.Network, m *member) {
	names := universe(m.key)
	types := []string{m.variant.Service}
	if m.variant.Service == "" {
		types = []string{xdstest.ClusterType, xdstest.EndpointType, xdstest.ListenerType, xdstest.RouteType, xdstest.SecretType}
	}
	typeURL := rapid.SampledFrom(types).Draw(t, "type")
	some := rapid.SliceOfNDistinct(rapid.SampledFrom(names[typeURL]), 1, 3, rapid.ID[string]).Draw(t, "names")
	switch rapid.IntRange(0, 13).Draw(t, "action") {
	case 0, 1, 2, 3:
		for _, o := range origins {
			o.Mutate(m.key, random, names)
		}
	case 4, 5, 6:
		m.Subscribe(typeURL, some...)
	case 7:
		m.Subscribe(typeURL, xdstest.Wildcard)
	case 8:
		m.Unsubscribe(typeURL, some...)
	case 9:
		m.Reconnect()
	case 10:
		down.Cut()
	case 11:
		rapid.SampledFrom(ups).Draw(t, "origin").Cut()
	case 12:
		m.rejects.Store(!m.rejects.Load())
	case 13:
		m.lazy.Store(!m.lazy.Load())
	}
}

// startFor starts a node for a rapid check; stop ends it and waits.
func startFor(t xdstest.TB, change func(*config.Config)) (node *relay.Node, stop func()) {
	return startOn(t, nil, change)
}

// startOn is startFor on a network; nil is TCP.
func startOn(t xdstest.TB, network *xdstest.Memory, change func(*config.Config)) (node *relay.Node, stop func()) {
	opts := relay.Options{Version: "v-test"}
	if network != nil {
		opts.Listen, opts.Dial = network.Listen, network.Dial
	}
	return startTo(t, opts, change)
}

// startTo is startFor with options.
func startTo(t xdstest.TB, opts relay.Options, change func(*config.Config)) (node *relay.Node, stop func()) {
	cfg := testConfig()
	cfg.Admin.Address = ""
	change(cfg)
	node, err := relay.New(cfg, opts)
	if err != nil {
		t.Fatalf("node: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	return node, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the node ended with: %v", err)
		}
	}
}
