package relay_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"pgregory.net/rapid"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/relay/xdstest/property"
	"xdsrelay/shard"
)

// TestTierConvergence: TestConvergence over two nodes, of which clients change from one
// to the other, keys, too, and which lose one another: in the end each client holds what
// the origin serves its key (C14, D12), which has one stream for each (K4), and nobody
// ever got a resource of another key (K6).
func TestTierConvergence(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			property.Check(t, func(t *rapid.T) { convergeTier(t, variant) })
		})
	})
}

func convergeTier(t *rapid.T, variant config.Variant) {
	network := xdstest.NewMemory()
	o := network.NewStateOrigin(t, (*corev3.Node).GetCluster)
	up := network.NewNetwork(t, o.Addr())
	all := &roster{}
	ways := []*xdstest.Network{up} // to the origin, and to the peer ports
	linger := rapid.SampledFrom([]time.Duration{0, 30 * time.Millisecond, time.Minute}).Draw(t, "linger")
	private := rapid.SampledFrom([][]string{nil, {"Secret"}}).Draw(t, "private types")
	names := []string{"a", "b"}
	var nodes []*relay.Node
	var downs []*xdstest.Network
	var stops []func()
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	for _, name := range names {
		way := network.NewNetwork(t, "")
		options := relay.Options{Version: "v-test", Listen: network.Listen, Dial: network.Dial, Members: all.take}
		node, stop := startTo(t, options, func(cfg *config.Config) {
			cfg.Node.Name = name
			cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{up.Addr()}, variant
			cfg.Upstream.ResourceTimeout = 100 * time.Millisecond
			cfg.Upstream.Backoff.Initial, cfg.Upstream.Backoff.Max = 10*time.Millisecond, 30*time.Millisecond
			cfg.Cache.Linger, cfg.Cache.ConfirmTimeout = linger, 100*time.Millisecond
			cfg.Aggregation.PrivateTypes = private
			cfg.Tier.Nodes = []string{name + "=" + way.Addr()}
			cfg.Tier.Peer.Address, cfg.Tier.Peer.AdvertiseAddress = "127.0.0.1:0", way.Addr()
			cfg.Tier.OwnerTimeout = 100 * time.Millisecond
		})
		stops = append(stops, stop)
		way.Retarget(node.PeerAddr())
		ways, nodes, downs = append(ways, way), append(nodes, node), append(downs, network.NewNetwork(t, node.Addr()))
	}
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))

	var members []*member
	for i, v := range everyVariant {
		for j := range downs {
			n := i*len(downs) + j
			m := newMember(t, downs[j].Addr(), keysOfTest[(i/2+j)%2], n, v, network.Option())
			m.Subscribe(xdstest.ClusterType, rapid.SampledFrom([][]string{{xdstest.Wildcard}, universe(m.key)[xdstest.ClusterType]}).Draw(t, "first")...)
			if v.Service == "" {
				m.Subscribe(xdstest.RouteType, universe(m.key)[xdstest.RouteType]...)
			}
			members = append(members, m)
		}
	}
	for _, key := range keysOfTest {
		o.Update(key, func(c *xdstest.Change) {
			for u, names := range universe(key) {
				c.Set(xdstest.Synthetic(u, names[0], random.IntN(1000)))
			}
		})
	}
	for range rapid.IntRange(5, 40).Draw(t, "steps") {
		m := rapid.SampledFrom(members).Draw(t, "member")
		down := rapid.SampledFrom(downs).Draw(t, "node")
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			away := rapid.Bool().Draw(t, "away")
			all.change(rapid.SampledFrom(names).Draw(t, "name"), func(m *shard.Member) { m.Draining = away })
		case 1:
			m.MoveTo(down.Addr())
		case 2:
			rapid.SampledFrom(ways).Draw(t, "way").Refuse()
		case 3:
			if err := rapid.SampledFrom(ways).Draw(t, "way").Accept(); err != nil {
				t.Fatal(err)
			}
		default:
			step(t, random, []*xdstest.StateOrigin{o}, ways, down, m)
		}
		time.Sleep(rapid.SampledFrom([]time.Duration{0, time.Millisecond, 200 * time.Millisecond}).Draw(t, "pause")) //nolint:forbidigo // virtual time
	}

	for _, m := range members {
		m.rejects.Store(false)
		m.lazy.Store(false)
	}
	for _, way := range ways {
		_ = way.Heal()
	}
	for _, name := range names {
		all.change(name, func(m *shard.Member) { m.Draining = false })
	}
	refresh(o, random, variant)
	for _, m := range members {
		m.WaitFor(t, "what the origin serves", func() bool { return len(o.Differences(m.key, m.Auto)) == 0 })
		m.CheckViolations(t)
		if n := m.strays.Load(); n > 0 {
			t.Fatalf("a client of key %q was sent %d resources of another key", m.key, n)
		}
	}
	if private == nil {
		// Streams of keys of which nobody wants anything may be there no more.
		xdstest.Eventually(t, "one stream at most for each key", func() bool { return o.Counts().Open <= len(keysOfTest) })
	}
	for i, node := range nodes {
		for _, wrong := range node.Check() {
			t.Errorf("check of node %s: %s", names[i], wrong)
		}
	}
	for _, m := range members {
		m.Close()
	}
	for _, n := range append(downs, ways...) {
		n.Close()
	}
	o.Stop()
}
