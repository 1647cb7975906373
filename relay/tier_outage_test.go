package relay_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// servedWithin is the time within which a client has to have its configuration while any node of
// the tier holds it.
const servedWithin = 2 * time.Second

// newcomers puts new clients of every variant on a node, and holds that each has all that
// the control plane last served within the time, and keeps it.
func (w *tierWorld) newcomers(what, node, key string) {
	w.t.Helper()
	before := len(w.clients[key])
	from := time.Now()
	w.inhabitAs(fmt.Sprintf("%s-%d", node, before), node, key)
	w.servedSince(what, node, key, w.clients[key][before:], from)
}

// servedSince holds that clients have what the control plane last served within the time.
func (w *tierWorld) servedSince(what, node, key string, clients []*xdstest.Auto, from time.Time) {
	w.t.Helper()
	for len(clients) > 0 && time.Since(from) < servedWithin {
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // virtual time
		clients = slices.DeleteFunc(slices.Clone(clients), func(c *xdstest.Auto) bool { return len(w.origin.Differences(key, c)) == 0 })
	}
	for _, c := range clients {
		w.t.Errorf("%s: a client of %s on node %s lacks after %s %q\n%s", what, key, node, servedWithin, w.origin.Differences(key, c), c)
	}
}

// nothingLost holds that no client has lost anything.
func (w *tierWorld) nothingLost(what string) {
	w.t.Helper()
	for key, clients := range w.clients {
		for _, c := range clients {
			if d := w.origin.Differences(key, c); len(d) > 0 {
				w.t.Errorf("%s: a client lacks %q\n%s", what, d, c)
			}
			c.CheckViolations(w.t)
		}
	}
}

// longestBackoff is the longest pause before a node tries to reach the control plane again
// (upstream.backoff), with its jitter.
const longestBackoff = 36 * time.Second

// recovers holds that all is well once the control plane is back.
func (w *tierWorld) recovers() {
	w.t.Helper()
	for key := range w.clients {
		w.set(key, 2)
	}
	if err := w.origin.Start(); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(longestBackoff) //nolint:forbidigo // virtual time
	w.converged()
	w.settle()
	w.converged()
	w.check()
}

// restart ends a node in an orderly way and starts it again. Its clients, those of some
// keys, go to another node once it has ended, and stay there.
func (w *tierWorld) restart(name, next string, keys ...string) {
	w.t.Helper()
	w.nodes[name].stop()
	w.nodes[name].ended(w.t)
	w.roster.drop(name)
	w.start(name)
	var moved []*xdstest.Auto
	for _, key := range keys {
		for _, c := range w.clients[key] {
			c.MoveTo(w.nodes[next].Addr())
			moved = append(moved, c)
		}
	}
	time.Sleep(servedWithin) //nolint:forbidigo // virtual time
	streams := make([]int, len(moved))
	for i, c := range moved {
		streams[i] = c.Stats().Streams
	}
	w.settle()
	for i, c := range moved {
		if n := c.Stats().Streams - streams[i]; n > 0 || !c.Connected() {
			w.t.Errorf("%s was restarted, and a client on %s opened %d streams more: %v\n%s", name, next, n, c.Stats().LastEnd, c)
		}
	}
}

// TestOwnersOfNothing: the nodes of a tier declare the control plane lost one after the
// other, and keys go from one to the next, also to nodes that have never had a client of
// them. Clients that come to any node at any time get what the others hold (K14).
func TestOwnersOfNothing(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			var keys []string
			for i := range 12 {
				keys = append(keys, fmt.Sprintf("key-%d", i))
			}
			w := newTierWorld(t, 3, variant, keys...)
			for _, key := range keys { // the other nodes have nothing of it
				w.inhabit(w.roster.owner(key), key)
			}
			w.converged()
			w.origin.Stop()
			for _, key := range keys {
				time.Sleep(1700 * time.Millisecond) //nolint:forbidigo // virtual time: some of them in each state of the tier
				for _, name := range w.names {
					w.newcomers("keys move", name, key)
				}
			}
			w.settle()
			w.nothingLost("after a while")
			w.recovers()
		})
	})
}

// TestJoinsDuringOutage: nodes that start while the control plane is away do not become
// the owners of what others hold, and serve it all the same; also where the others end
// then, in an orderly way (K14).
func TestJoinsDuringOutage(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 3, variant, "red", "blue", "green", "amber")
			w.populate()
			w.converged()
			w.origin.Stop()
			time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
			w.grow(5)
			for _, key := range w.keys {
				if owner := w.roster.owner(key); !slices.Contains(w.names[:3], owner) {
					t.Errorf("%s belongs to %s, which has nothing", key, owner)
				}
				for _, name := range w.names {
					w.newcomers("scaled up during the outage", name, key)
				}
			}
			time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual time
			w.nothingLost("after two minutes")
			w.recovers()
		})
	})
}

// TestJoinsEarlyInOutage: a node that starts when nobody has declared the control plane
// lost yet becomes the owner of its share, with nothing, and serves it (K14).
func TestJoinsEarlyInOutage(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			keys := []string{"red", "blue", "green", "amber"}
			w := newTierWorld(t, 1, variant, keys...)
			w.populate()
			w.converged()
			w.origin.Stop()
			w.grow(3)
			for _, name := range w.names {
				for _, key := range keys {
					w.newcomers("joined early in the outage", name, key)
				}
			}
			w.recovers()
		})
	})
}

// TestRestoredByOwnersOnly: with a directory on each node only the owner of a key keeps
// it. Nodes that start during an outage get it from that node, whoever owns the key then,
// and also where that node has no client of it (K14).
func TestRestoredByOwnersOnly(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 0, variant, "red", "blue", "green")
			w.tierRig = newTierRig(t, w.network, 3, func(cfg *config.Config) {
				cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{w.origin.Addr()}, variant
				cfg.LastKnownGood.Store, cfg.LastKnownGood.Directory, cfg.LastKnownGood.WriteDelay = config.StoreDirectory, filepath.Join(dir, cfg.Node.Name), 100*time.Millisecond
			})
			w.populate()
			w.converged()
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
			w.origin.Stop()
			for _, clients := range w.clients {
				for _, c := range clients {
					c.Close()
				}
			}
			w.clients = map[string][]*xdstest.Auto{}
			for _, name := range w.names {
				w.kill(name)
				w.roster.drop(name)
			}
			for _, name := range w.names {
				w.start(name)
			}
			w.grow(4) // and some keys are another node's
			for _, key := range w.keys {
				for i := range w.names { // not the owner first
					w.newcomers("restored by owners only", w.names[len(w.names)-1-i], key)
				}
			}
			w.settle()
			w.nothingLost("after a while")
			w.recovers()
		})
	})
}

// TestRollingRestartDuringOutage: all nodes are restarted one after the other while the
// control plane is away. A node that ends hands over what it holds, so that every client
// is served on the next one, and those that come later (K14).
func TestRollingRestartDuringOutage(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 3, variant, "red", "blue", "green", "amber")
			for i, key := range w.keys { // each key has clients on one node alone
				w.inhabit(w.names[i%len(w.names)], key)
			}
			w.converged()
			w.origin.Stop()
			time.Sleep(10 * time.Second)  //nolint:forbidigo // virtual time
			at := make(map[string]string) // the node of each key's clients
			for i, key := range w.keys {
				at[key] = w.names[i%len(w.names)]
			}
			for i, name := range w.names {
				next := w.names[(i+1)%len(w.names)]
				var moved []string
				for _, key := range w.keys {
					if at[key] == name {
						at[key], moved = next, append(moved, key)
					}
				}
				w.restart(name, next, moved...)
				w.nothingLost("restarted " + name)
			}
			for _, name := range w.names {
				for _, key := range w.keys {
					w.newcomers("after the last restart", name, key)
				}
			}
			w.recovers()
		})
	})
}

// TestHandedOverWithoutClients: what a node holds of keys whose clients have gone
// outlives its orderly end during an outage, too.
func TestHandedOverWithoutClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTierWorld(t, 3, config.Delta, "red")
		owner := w.roster.owner("red")
		w.inhabit(owner, "red")
		w.converged()
		for _, c := range w.clients["red"] {
			c.Close()
		}
		w.clients["red"] = nil
		w.origin.Stop()
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
		w.nodes[owner].stop()
		w.nodes[owner].ended(t)
		w.roster.drop(owner)
		for _, name := range w.names {
			if name != owner {
				w.newcomers("its only holder has ended", name, "red")
			}
		}
	})
}

// TestNewerInMemory: a node that starts during an outage with an older state on its disk
// than another node has in memory serves the newer one: to new clients within the time, and
// nobody who has it is sent the older one (K12, K14).
func TestNewerInMemory(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 2, variant, "red")
			older, newer := w.names[0], w.names[1]
			for _, name := range w.names {
				w.kill(name)
				w.roster.drop(name)
			}
			c := w.configs[older]
			c.LastKnownGood.Store, c.LastKnownGood.Directory, c.LastKnownGood.WriteDelay = config.StoreDirectory, dir, 100*time.Millisecond
			w.start(older)
			w.inhabit(older, "red")
			w.converged()
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
			w.kill(older)
			w.roster.drop(older)
			for _, c := range w.clients["red"] {
				c.Close()
			}
			w.clients["red"] = nil

			time.Sleep(time.Hour) //nolint:forbidigo // virtual time
			w.set("red", 2)
			w.start(newer)
			w.inhabit(newer, "red")
			w.converged()
			w.origin.Stop()
			time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
			w.start(older)
			for i, c := range w.clients["red"] {
				before, v := w.resources.Load(), everyVariant[i]
				c.MoveTo(w.nodes[older].Addr())
				w.settle()
				if n := w.resources.Load() - before; v.Delta && n > 0 {
					t.Errorf("a client that has the newer state was sent %d resources\n%s", n, c)
				}
			}
			w.nothingLost("moved to the node with the older state")
			w.newcomers("an older state on disk", older, "red")
			w.recovers()
		})
	})
}
