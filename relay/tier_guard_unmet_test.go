package relay_test

import (
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// TestGuardMovesToANodeThatSeesNobody: K16: a node joins while removals are held back, becomes the
// owner of the key, and does not see the node that holds them back, whose lease has ended since
// it is cut off from Redis. The control plane is empty, and so is what the owner holds. The other
// node does not follow it as long as it holds removals back.
func TestGuardMovesToANodeThatSeesNobody(t *testing.T) {
	forGuards(t, func(w *guardedTier) {
		holds := w.roster.owner(w.key)
		gone := w.names[1-slices.Index(w.names, holds)]
		w.crash(gone, holds)
		w.roster.look(func(node string, all []shard.Member) []shard.Member {
			if node != "c" {
				return all
			}
			return slices.DeleteFunc(slices.Clone(all), func(m shard.Member) bool { return m.Name != node })
		})
		w.grow(3)
		w.pass(time.Minute)
		w.works("the new owner has asked the control plane", w.clients[w.key]...)
		w.roster.look(nil)
		w.pass(time.Minute)
		w.works("the new owner sees the other node", w.clients[w.key]...)
		w.pass(hold)
		w.start(gone)
		w.goes("the hold is over")
		w.check()
	})
}

// TestGuardMovesOnToANodeThatSeesNobody: K16: the owner of a key holds removals back, and another node
// follows it. A third node joins, becomes the owner, and does not see the others. The control plane
// is empty, and so is what the new owner holds. The other node does not go on to follow that, although
// it is not known to hold anything back itself.
func TestGuardMovesOnToANodeThatSeesNobody(t *testing.T) {
	forGuards(t, func(w *guardedTier) {
		w.roster.look(func(node string, all []shard.Member) []shard.Member {
			if node != "c" {
				return all
			}
			return slices.DeleteFunc(slices.Clone(all), func(m shard.Member) bool { return m.Name != node })
		})
		w.grow(3)
		w.pass(time.Minute)
		w.works("the new owner has asked the control plane", w.clients[w.key]...)
		w.roster.look(nil)
		w.pass(time.Minute)
		w.works("the new owner sees the other nodes", w.clients[w.key]...)
		w.pass(hold)
		w.goes("the hold is over")
		w.check()
	})
}

// TestGuardEndsBeforeTheOwnerReturns: K16: a hold ends while the owner of the key is away. It returns
// with its last known good state, and does not see the other node: it holds back what that has removed.
// The other node does not follow it, and has it remove all that as soon as it is seen.
func TestGuardEndsBeforeTheOwnerReturns(t *testing.T) {
	forGuards(t, func(w *guardedTier) {
		owner := w.roster.owner(w.key)
		w.crash(owner, w.names[1-slices.Index(w.names, owner)])
		w.pass(2 * hold)
		gone := func(when string) {
			for i, c := range w.clients[w.key] {
				if n := len(c.Held(xdstest.ClusterType)) + len(c.Held(xdstest.ListenerType)); n > 0 {
					w.t.Errorf("%s: client %d has %d clusters and listeners\n%s", when, i, n, c)
				}
			}
		}
		gone("the hold is over")
		w.roster.look(func(node string, all []shard.Member) []shard.Member {
			if node != owner {
				return all
			}
			return slices.DeleteFunc(slices.Clone(all), func(m shard.Member) bool { return m.Name != node })
		})
		w.start(owner)
		w.pass(time.Minute)
		gone("the owner is back")
		w.roster.look(nil)
		w.pass(time.Minute)
		w.goes("the owner sees the other node")
		w.check()
	})
}
