package relay_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// everyVariant are those of the clients of these tests.
var everyVariant = []xdstest.Variant{
	xdstest.SotW, xdstest.Delta, {Service: xdstest.ClusterType}, {Delta: true, Service: xdstest.ClusterType},
}

// tierWorld is a tier with an origin, and clients of every variant on each node for
// each key.
type tierWorld struct {
	*tierRig

	origin  *xdstest.StateOrigin
	keys    []string
	clients map[string][]*xdstest.Auto // by key
}

func newTierWorld(t *testing.T, nodes int, variant config.Variant, keys ...string) *tierWorld {
	t.Helper()
	network := xdstest.NewMemory()
	w := &tierWorld{origin: network.NewStateOrigin(t, (*corev3.Node).GetCluster), keys: keys, clients: map[string][]*xdstest.Auto{}}
	for _, key := range keys {
		w.set(key, 1)
	}
	w.tierRig = newTierRig(t, network, nodes, func(cfg *config.Config) {
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{w.origin.Addr()}, variant
	})
	return w
}

// set makes the origin serve the state v of a key.
func (w *tierWorld) set(key string, v int) {
	w.origin.Update(key, func(c *xdstest.Change) {
		c.Set(
			xdstest.Cluster(key+"-a", time.Duration(v)*time.Second), xdstest.Cluster(key+"-b", time.Second),
			xdstest.Endpoints(key+"-a", fmt.Sprintf("127.0.0.1:%d", 1000+v)), xdstest.Listener(key+"-l", "127.0.0.1:80", key+"-r"),
			xdstest.Route(key+"-r", fmt.Sprintf("%s-%c", key, 'a'+v%2)),
		)
		if extra := xdstest.Cluster(key+"-c", time.Second); v%2 == 0 {
			c.Set(extra)
		} else {
			c.Remove(xdstest.ClusterType, xdstest.NameOf(extra))
		}
	})
}

// empty makes the origin serve nothing of a key, as far as it can say so: of what is
// asked for by name, SotW only knows silence (C11).
func (w *tierWorld) empty(key string, variant config.Variant) {
	w.origin.Update(key, func(c *xdstest.Change) {
		c.Remove(xdstest.ClusterType, key+"-a", key+"-b", key+"-c")
		c.Remove(xdstest.ListenerType, key+"-l")
		if variant == config.Delta {
			c.Remove(xdstest.EndpointType, key+"-a")
			c.Remove(xdstest.RouteType, key+"-r")
		}
	})
}

// populate puts clients of every variant on each node.
func (w *tierWorld) populate() {
	for _, key := range w.keys {
		for _, node := range w.names {
			w.inhabit(node, key)
		}
	}
}

// inhabit puts clients of every variant on a node.
func (w *tierWorld) inhabit(node, key string) { w.inhabitAs(node, node, key) }

// inhabitAs is inhabit with ids of clients that begin in another way.
func (w *tierWorld) inhabitAs(id, node, key string) {
	for i, v := range everyVariant {
		c := w.client(node, fmt.Sprintf("%s-%s-%d", id, key, i), key, v)
		c.Subscribe(xdstest.ClusterType)
		if v.Service == "" {
			c.Subscribe(xdstest.EndpointType, key+"-a")
			c.Subscribe(xdstest.ListenerType)
			c.Subscribe(xdstest.RouteType, key+"-r")
		}
		w.clients[key] = append(w.clients[key], c)
	}
}

// converged waits until all clients hold what the origin serves.
func (w *tierWorld) converged() {
	w.t.Helper()
	for key, clients := range w.clients {
		for _, c := range clients {
			c.WaitFor(w.t, "what the origin serves", func() bool { return len(w.origin.Differences(key, c)) == 0 })
			c.CheckViolations(w.t)
		}
	}
}

// streams waits until the origin has so many.
func (w *tierWorld) streams(n int) {
	w.t.Helper()
	xdstest.Eventually(w.t, fmt.Sprintf("the origin has %d streams", n), func() bool { return w.origin.Counts().Open == n })
}

// frames is what all clients were sent.
func (w *tierWorld) frames() (n int) {
	for _, clients := range w.clients {
		for _, c := range clients {
			n += c.Stats().Frames
		}
	}
	return n
}

// versions holds that all clients of a variant were told the same versions.
func (w *tierWorld) versions() {
	w.t.Helper()
	for key, clients := range w.clients {
		for i, c := range clients {
			first := clients[i%len(everyVariant)]
			for _, u := range []string{xdstest.ClusterType, xdstest.ListenerType, xdstest.EndpointType} {
				if got, want := c.Version(u), first.Version(u); got != want {
					w.t.Errorf("%s of %s: client %d has version %q of %s, another %q", key, w.roster.owner(key), i, got, u, want)
				}
				for name, r := range c.Held(u) {
					if want := first.Held(u)[name].Version; r.Version != want {
						w.t.Errorf("%s: client %d has version %q of %s, another %q", key, i, r.Version, name, want)
					}
				}
			}
		}
	}
}

// TestTier: clients of all variants on all nodes converge, with one stream to the
// origin for each key (K4, K9), and equal versions on each node (K11, D7, D14).
func TestTier(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 3, variant, "red", "blue", "green")
			w.populate()
			w.converged()
			w.streams(3)
			w.versions()
			for v := 2; v < 6; v++ {
				for _, key := range w.keys {
					w.set(key, v)
				}
				w.converged()
				w.settle()
				w.versions()
			}
			w.streams(3)
			if n := w.origin.Counts(); n.Streams != 3 || n.Nacks > 0 {
				t.Errorf("the origin saw %+v", n)
			}
			w.check()
		})
	})
}
