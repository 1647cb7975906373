package relay_test

import (
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// settle lets everything happen that is about to: what is late by design takes no
// more than some seconds (E5, K15).
func (w *tierWorld) settle() {
	w.t.Helper()
	time.Sleep(20 * time.Second) //nolint:forbidigo // virtual time
	synctest.Wait()
}

// TestOwnerMoves: the owner of a key goes elsewhere while clients are connected.
// Nothing is sent again to anybody, and in the end the origin has one stream (K14).
func TestOwnerMoves(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 3, variant, "red")
			w.populate()
			w.converged()
			w.settle()
			frames := w.frames()
			for range 3 {
				owner := w.roster.owner("red")
				w.roster.change(owner, func(m *shard.Member) { m.Draining = true })
				w.settle()
				w.streams(1)
				if n := w.frames(); n != frames {
					t.Errorf("%d responses more when the key moved from %s", n-frames, owner)
				}
				w.set("red", 2)
				w.converged()
				w.settle()
				w.versions()
				frames = w.frames()
				w.roster.change(owner, func(m *shard.Member) { m.Draining = false })
				w.settle()
				w.streams(1)
				if n := w.frames(); n != frames {
					t.Errorf("%d responses more when the key moved back to %s", n-frames, owner)
				}
			}
			w.check()
		})
	})
}

// TestOwnerDies: those that followed an owner ask the origin themselves once it has
// been out of reach for the owner timeout, and come back when it is there again. Their
// clients notice nothing (K14).
func TestOwnerDies(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 3, variant, "red")
			w.populate()
			w.converged()
			w.settle()
			owner := w.roster.owner("red")
			var rest []*xdstest.Auto
			for i, c := range w.clients["red"] {
				if w.names[i/len(everyVariant)] != owner {
					rest = append(rest, c)
				} else {
					c.Close()
				}
			}
			w.clients["red"] = rest
			frames := w.frames()
			w.kill(owner)
			w.streams(2)
			w.settle()
			if n := w.frames(); n != frames {
				t.Errorf("%d responses more when the owner died", n-frames)
			}
			w.set("red", 2)
			w.converged()
			w.settle()
			frames = w.frames()
			w.start(owner)
			w.streams(1)
			w.settle()
			if n := w.frames(); n != frames {
				t.Errorf("%d responses more when the owner came back", n-frames)
			}
			w.set("red", 3)
			w.converged()
			w.streams(1)
			w.check()
		})
	})
}

// TestClientMoves: a client that goes to another node with what it holds is sent no
// resource: on delta nothing at all, on SotW as far as its version proves that it has
// everything (K11, B37, B39).
func TestClientMoves(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 3, variant, "red")
			w.populate()
			w.converged()
			w.settle()
			for i, c := range w.clients["red"] {
				v := everyVariant[i%len(everyVariant)]
				if !v.Delta && (v.Service == "" || variant == config.SotW) {
					continue // it asks by name, too, or its version is the origin's own (B39)
				}
				for _, node := range w.names {
					before, resources := c.Stats(), w.resources.Load()
					c.MoveTo(w.nodes[node].Addr())
					w.settle()
					after := c.Stats()
					if after.Streams == before.Streams {
						t.Fatal("it did not connect again")
					}
					if got := w.resources.Load() - resources; got > 0 {
						t.Errorf("%s: %d resources at node %s", c, got, node)
					}
				}
			}
			w.converged()
			w.streams(1)
			w.check()
		})
	})
}

// TestTwoViews: two nodes that each take the other for the owner of a key do not wait for
// one another, nor change places for ever: one of them has it from the origin, where it
// had it before with the same stream, and clients of both are told what changes; so it is
// where each takes itself for the owner.
func TestTwoViews(t *testing.T) {
	other := func(node string, m *shard.Member) { m.Draining = m.Name == node }
	themselves := func(node string, m *shard.Member) { m.Draining = m.Name != node }
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 2, variant, "red")
			w.populate()
			w.converged()
			w.settle()
			state, opened, frames := 1, w.origin.Counts().Streams, w.frames()
			for _, step := range []struct {
				what   string
				view   func(node string, m *shard.Member)
				open   int // streams then
				opened int // streams that this takes at most; -1 for any number
			}{
				{"each takes the other for the owner", other, 1, 0},
				{"each takes itself", themselves, 2, 1},
				{"each takes the other once more", other, 1, -1},
				{"they agree", func(string, *shard.Member) {}, 1, -1},
			} {
				w.roster.look(func(node string, all []shard.Member) []shard.Member {
					for i := range all {
						step.view(node, &all[i])
					}
					return all
				})
				w.settle()
				if n := w.origin.Counts().Streams - opened; step.opened >= 0 && n > step.opened {
					t.Errorf("%s: %d streams were opened at the origin, expected %d", step.what, n, step.opened)
				}
				w.streams(step.open)
				if n := w.frames(); n != frames {
					t.Errorf("%s: %d responses, of what clients have", step.what, n-frames)
				}
				opened = w.origin.Counts().Streams
				state++
				w.set("red", state)
				w.converged()
				for range 5 {
					w.settle()
				}
				if n := w.origin.Counts().Streams - opened; n > 0 {
					t.Errorf("%s: %d streams were opened at the origin while nothing happened", step.what, n)
				}
				opened, frames = w.origin.Counts().Streams, w.frames()
			}
			w.check()
		})
	})
}
