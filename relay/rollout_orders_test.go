package relay_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/config"
)

// endings are the ways in which the owner of a key ends.
var endings = map[string]bool{"drained": false, "killed": true}

// endsOwner runs a test in virtual time for each of these ways, where the owner has clients, and where the
// next one has none.
func endsOwner(t *testing.T, policy func() *config.RolloutPolicy, f func(t *testing.T, w *orderedTier, end func())) {
	for how, killed := range endings {
		for clients, without := range map[string][]string{"": nil, ", the next owner without clients": {nextOwner("a", "b", "c")}} {
			t.Run(how+clients, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := orderTier(t, 3, policy(), without...)
					f(t, w, func() { w.ends(w.owner(), killed) })
					w.checkAll()
				})
			})
		}
	}
}

// nextOwner returns the node that owns the key once the owner has ended.
func nextOwner(names ...string) string {
	owner := ownerOf("demo", names...)
	rest := append(append([]string{}, names[:owner]...), names[owner+1:]...)
	return rest[ownerOf("demo", rest...)]
}

// steadyPolicy is the policy "mine" with a final bake that outlives a change of owner.
func steadyPolicy() *config.RolloutPolicy {
	policy := quickPolicy()
	policy.FinalBake = 5 * time.Minute
	return &policy
}

// TestTierUndoAfterOwnerEnds: the node that owns a key next returns all clients to the revisions before, which
// the owner before has released, one by one.
func TestTierUndoAfterOwnerEnds(t *testing.T) {
	endsOwner(t, steadyPolicy, func(t *testing.T, w *orderedTier, end func()) {
		for _, revision := range []string{"b", "c"} {
			w.origin.Set("demo", w.revision(revision)...)
			<-time.After(time.Minute)
			w.all("the revision "+revision, w.has(revision))
			<-time.After(10 * time.Minute)
			w.waits("Idle")
		}
		end()
		for _, revision := range []string{"b", "a"} {
			w.orders(w.follower(), "undo", false, http.StatusOK)
			w.all("the revision before", w.has(revision))
			w.waits("Held")
			<-time.After(time.Minute)
			w.all("the revision before, still", w.has(revision))
		}
		if _, text := w.orders(w.follower(), "undo", false, http.StatusConflict); !strings.Contains(text, "no revision before") {
			t.Error(text)
		}
		w.origin.Set("demo", w.revision("d")...)
		w.all("what the control plane sends instead", w.has("d"))
	})
}

// TestTierFinalBakeAfterOwnerEnds: a revision that fails its final bake goes back, although the node that
// released it has ended.
func TestTierFinalBakeAfterOwnerEnds(t *testing.T) {
	endsOwner(t, steadyPolicy, func(t *testing.T, w *orderedTier, end func()) {
		w.origin.Set("demo", w.revision("b")...)
		<-time.After(time.Minute)
		w.all("the revision", w.has("b"))
		w.waits("Proving Bake")
		end()
		w.waits("Proving Bake")
		w.rejects.Store(true)
		w.joins(w.follower(), "new") // it rejects what all have
		w.waits("Held")
		w.all("the revision before", w.has("a"))
	})
}
