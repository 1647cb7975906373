package relay_test

import (
	"slices"
	"testing"
	"time"

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
