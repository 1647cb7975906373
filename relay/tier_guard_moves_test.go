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
	"xdsrelay/shard"
)

// guardedTier is a tier of two nodes with a removal guard, whose control plane has become
// empty by mistake, and a key that a third node would own.
type guardedTier struct {
	*tierWorld

	key     string
	variant config.Variant
}

func newGuardedTier(t *testing.T, variant config.Variant, kept string) *guardedTier {
	t.Helper()
	w := &guardedTier{key: keyOf("c", "a", "b", "c"), variant: variant}
	w.tierWorld = newTierWorld(t, 0, variant, w.key)
	w.tierRig = newTierRig(t, w.network, 2, func(cfg *config.Config) {
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{w.origin.Addr()}, variant
		cfg.RemovalGuard.MaxPercent, cfg.RemovalGuard.Hold = 50, hold
		if kept != "" {
			cfg.LastKnownGood.Store, cfg.LastKnownGood.Directory, cfg.LastKnownGood.WriteDelay = config.StoreDirectory, filepath.Join(kept, cfg.Node.Name), 100*time.Millisecond
		}
	})
	w.populate()
	w.converged()
	w.pass(time.Minute)
	w.empty(w.key, variant)
	w.pass(time.Minute)
	w.works("after the control plane became empty", w.clients[w.key]...)
	return w
}

// keyOf is a key that a node owns among others.
func keyOf(owner string, nodes ...string) string {
	var all []shard.Member
	for _, name := range nodes {
		all = append(all, shard.Member{Name: name})
	}
	for i := 0; ; i++ {
		key := fmt.Sprint("key-", i)
		if m, _ := shard.NewView(all).Owner(key); m.Name == owner {
			return key
		}
	}
}

// pass lets time pass.
func (w *guardedTier) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}

// works holds that clients, in the order of everyVariant, have all that the control plane
// has removed.
func (w *guardedTier) works(when string, clients ...*xdstest.Auto) {
	w.t.Helper()
	for i, c := range clients {
		want := map[string]int{xdstest.ClusterType: 2}
		if everyVariant[i%len(everyVariant)].Service == "" {
			want[xdstest.ListenerType], want[xdstest.EndpointType], want[xdstest.RouteType] = 1, 1, 1
		}
		for typeURL, n := range want {
			if len(c.Held(typeURL)) != n {
				w.t.Fatalf("%s: client %d has %d of %d of %s\n%s", when, i, len(c.Held(typeURL)), n, typeURL, c)
			}
		}
		c.CheckViolations(w.t)
	}
}

// newcomers puts new clients of every variant on a node, which get everything.
func (w *guardedTier) newcomers(when, node string) {
	w.t.Helper()
	before := len(w.clients[w.key])
	w.inhabitAs(when, node, w.key)
	w.pass(servedWithin)
	w.works(when+", new on "+node, w.clients[w.key][before:]...)
}

// everywhere is newcomers on all nodes, and holds that nobody has lost anything.
func (w *guardedTier) everywhere(when string) {
	w.t.Helper()
	for _, name := range w.names {
		w.newcomers(when, name)
	}
	w.works(when, w.clients[w.key]...)
	if n := w.removed.Load(); n > 0 {
		w.t.Errorf("%s: delta clients lost %d resources", when, n)
	}
}

// goes holds that nothing is left, on any node, of what the guard could hold back.
func (w *guardedTier) goes(when string) {
	w.t.Helper()
	for _, name := range w.names {
		w.inhabitAs(when, name, w.key)
	}
	w.pass(servedWithin)
	for i, c := range w.clients[w.key] {
		if n := len(c.Held(xdstest.ClusterType)) + len(c.Held(xdstest.ListenerType)); n > 0 {
			w.t.Errorf("%s: client %d has %d clusters and listeners\n%s", when, i, n, c)
		}
	}
}

// crash ends a node as kill -9 does, and lets the others know. All clients go to another.
func (w *guardedTier) crash(name, next string) {
	w.t.Helper()
	w.kill(name)
	w.roster.drop(name)
	for _, c := range w.clients[w.key] {
		c.MoveTo(w.nodes[next].Addr())
	}
}

// forGuards runs a test with control planes of either variant, with and without last known
// good state.
func forGuards(t *testing.T, test func(w *guardedTier)) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		for _, kept := range []string{"", t.TempDir()} {
			t.Run(fmt.Sprintf("kept=%t", kept != ""), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { test(newGuardedTier(t, variant, kept)) })
			})
		}
	})
}

// TestGuardMovesToNewNode: K16: a node that joins while removals are held back becomes the
// owner of the key, and holds them back for the time that is left.
func TestGuardMovesToNewNode(t *testing.T) {
	forGuards(t, func(w *guardedTier) {
		w.grow(3)
		if owner := w.roster.owner(w.key); owner != "c" {
			w.t.Fatalf("%s owns the key, expected c", owner)
		}
		w.newcomers("at once", "c")
		w.pass(10 * time.Second)
		w.everywhere("the new owner has asked the control plane")
		w.pass(hold - time.Minute - 30*time.Second)
		w.everywhere("shortly before the end of the hold")
		w.pass(time.Minute)
		w.goes("after the hold")
	})
}

// TestGuardMovesToANodeThatKnowsNobody: K16: a node that joins while removals are held back
// becomes the owner of the key before it knows any other node, as after Redis was emptied, and
// asks the control plane alone. The others take over nothing of that until it has asked them.
func TestGuardMovesToANodeThatKnowsNobody(t *testing.T) {
	times := []time.Duration{50 * time.Millisecond, time.Second, 5 * time.Second}
	if detector {
		times = times[:1] // a minute of its time
	}
	for _, alone := range times {
		t.Run(alone.String(), func(t *testing.T) {
			forGuards(t, func(w *guardedTier) {
				w.roster.look(func(node string, all []shard.Member) []shard.Member {
					return slices.DeleteFunc(all, func(m shard.Member) bool { return node == "c" && m.Name != "c" })
				})
				w.grow(3)
				w.pass(alone)
				w.roster.look(nil)
				w.pass(10 * time.Second)
				w.everywhere("the new owner knows all nodes")
				w.pass(hold - time.Minute - 30*time.Second)
				w.everywhere("shortly before the end of the hold")
				w.pass(time.Minute)
				w.goes("after the hold")
			})
		})
	}
}

// TestGuardMovesToRestartedOwner: K16: the owner crashes and returns with nothing in memory,
// and other nodes hold what it has to hold back. What the control plane takes back stays.
func TestGuardMovesToRestartedOwner(t *testing.T) {
	forGuards(t, func(w *guardedTier) {
		owner := w.roster.owner(w.key)
		next := map[string]string{"a": "b", "b": "a"}[owner]
		w.crash(owner, next)
		w.pass(10 * time.Second)
		w.works("the owner has crashed", w.clients[w.key]...)
		w.start(owner)
		w.newcomers("at once", owner)
		w.pass(10 * time.Second)
		w.everywhere("the owner is back")
		w.set(w.key, 1)
		w.pass(2 * hold)
		w.everywhere("the control plane was put right")
	})
}

// TestGuardMovesOneByOne: K16: all nodes that held the removals back at first have crashed,
// one after the other, and what they held has moved on each time.
func TestGuardMovesOneByOne(t *testing.T) {
	forGuards(t, func(w *guardedTier) {
		first := w.roster.owner(w.key)
		second := map[string]string{"a": "b", "b": "a"}[first]
		w.crash(first, second)
		w.pass(5 * time.Second)
		w.start(first)
		w.pass(5 * time.Second)
		w.newcomers("the first is back", first)
		w.crash(second, first)
		w.pass(5 * time.Second)
		w.start(second)
		w.pass(5 * time.Second)
		w.everywhere("both have crashed")
		w.pass(2 * hold)
		w.goes("after the hold")
	})
}

// TestGuardMovesOnDrain: K16: nodes end in an orderly way, one after the other, and what they
// hold back moves on, also of a key whose clients have all left, a moment or minutes ago.
func TestGuardMovesOnDrain(t *testing.T) {
	for _, left := range []time.Duration{0, time.Second, 2 * time.Minute} {
		t.Run(fmt.Sprintf("left=%s", left), func(t *testing.T) {
			originVariants(t, func(t *testing.T, variant config.Variant) {
				synctest.Test(t, func(t *testing.T) {
					w := newGuardedTier(t, variant, "")
					w.grow(3)
					if left > 0 {
						for _, c := range w.clients[w.key] {
							c.Close()
						}
						w.clients[w.key] = nil
						w.pass(left)
					}
					for i, name := range w.names {
						next := w.names[(i+1)%len(w.names)]
						w.pass(5 * time.Second)
						w.nodes[name].stop()
						w.nodes[name].ended(t)
						for _, c := range w.clients[w.key] {
							c.MoveTo(w.nodes[next].Addr())
						}
						w.roster.drop(name)
						w.pass(5 * time.Second)
						w.works(name+" was restarted", w.clients[w.key]...)
						w.start(name)
					}
					w.pass(5 * time.Second)
					w.everywhere("all were restarted")
				})
			})
		})
	}
}
