package relay_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
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
	policy.FinalBake = 3 * time.Minute
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
			<-time.After(4 * time.Minute)
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

// ordersPolicies are the policies of the keys of a test: none, one that only observes, and one that holds back.
var ordersPolicies = map[string]func() *config.RolloutPolicy{
	"no policy": func() *config.RolloutPolicy { return nil },
	"observe": func() *config.RolloutPolicy {
		policy := quickPolicy()
		policy.Mode = "observe"
		return &policy
	},
	"policy": steadyPolicy,
}

// TestTierFreeze: an order to freeze that any node gets holds on all of them, for a key and for all keys: also after
// the key has another owner, and after a restart of each node. Each node shows it. The same for its end.
func TestTierFreeze(t *testing.T) {
	for name, policy := range ordersPolicies {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, all=%t", name, all), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testTierFreeze(t, policy(), all) })
			})
		}
	}
}

func testTierFreeze(t *testing.T, policy *config.RolloutPolicy, all bool) {
	w := orderTier(t, 3, policy)
	w.orders(w.follower(), "unfreeze", all, http.StatusConflict)
	if done, _ := w.orders(w.follower(), "freeze", all, http.StatusOK); done.Note != "" {
		t.Errorf("%+v", done)
	}
	frozen := func() {
		t.Helper()
		for _, name := range w.names {
			var is ops.Rollout
			w.ask(name, http.MethodGet, "/api/v1/rollout?key=demo", &is)
			if len(is.Keys) != 1 || is.Keys[0].Freeze == nil || is.Keys[0].Freeze.Reason != "test" || (is.All != nil) != all {
				t.Errorf("node %s shows %+v", name, is)
			}
		}
		<-time.After(30 * time.Second)
		w.all("what they had", w.has("a"))
		if n := w.count(w.has("b")); n > 0 {
			t.Fatalf("%d clients have what is held back", n)
		}
	}
	w.origin.Set("demo", w.revision("b")...)
	frozen()
	for i, name := range slices.Clone(w.names) { // each owns the key for a time
		w.ends(name, i == 1)
		frozen()
		w.begin(name)
		w.names = append(w.names, name)
		<-time.After(30 * time.Second)
		w.joins(name, "again-"+name)
		frozen()
	}
	w.origin.Set("demo", xdstest.Endpoints("a", "127.0.0.2:1"))
	w.all("endpoints", func(c *xdstest.Auto) bool {
		return strings.Contains(string(c.Held(xdstest.EndpointType)["a"].Body), "127.0.0.2")
	})
	w.orders(w.follower(), "unfreeze", all, http.StatusOK)
	<-time.After(30 * time.Second)
	w.all("what was held back", w.has("b"))
	w.checkAll()
}

// TestTierUndo: an undo of a key without a policy holds on all nodes, also with another owner and after a
// restart, until the control plane sends something else.
func TestTierUndo(t *testing.T) {
	for _, name := range []string{"no policy", "observe"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testTierUndo(t, ordersPolicies[name]()) })
		})
	}
}

func testTierUndo(t *testing.T, policy *config.RolloutPolicy) {
	w := orderTier(t, 3, policy)
	w.origin.Set("demo", w.revision("b")...)
	w.all("the revision", w.has("b"))
	<-time.After(30 * time.Second)
	if done, _ := w.orders(w.follower(), "undo", false, http.StatusOK); done.Note != "" || len(done.Revisions) != 1 {
		t.Errorf("%+v", done)
	}
	undone := func() {
		t.Helper()
		<-time.After(30 * time.Second)
		w.all("the revision before", w.has("a"))
		for _, name := range w.names {
			if is := w.shown(name); is.Undone == nil || is.Undone.Reason != "test" {
				t.Errorf("node %s shows %+v", name, is)
			}
		}
	}
	undone()
	for i, name := range slices.Clone(w.names) {
		w.ends(name, i == 1)
		undone()
		w.begin(name)
		w.names = append(w.names, name)
		<-time.After(30 * time.Second)
		w.joins(name, "again-"+name)
		undone()
	}
	w.origin.Set("demo", w.revision("c")...)
	<-time.After(30 * time.Second)
	w.all("what the control plane sends instead", w.has("c"))
	for _, name := range w.names {
		if is := w.shown(name); is.Undone != nil {
			t.Errorf("node %s shows %+v", name, is)
		}
	}
	w.checkAll()
}

// TestTierOrdersWithoutRedis: while Redis is away, orders are refused, and those in force hold. If it has lost
// them, the nodes write them again.
func TestTierOrdersWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := orderTier(t, 2, nil)
		w.orders(w.follower(), "freeze", false, http.StatusOK)
		w.redis.Flush()
		w.redis.ReadOnly(true)
		if _, text := w.orders(w.follower(), "unfreeze", false, http.StatusConflict); !strings.Contains(text, "Redis") {
			t.Error(text)
		}
		w.redis.ReadOnly(false)
		<-time.After(30 * time.Second)
		w.origin.Set("demo", w.revision("b")...)
		owner := w.owner()
		w.ends(owner, true)
		w.begin(owner)
		<-time.After(30 * time.Second)
		w.all("what they had", w.has("a"))
		w.orders(w.names[0], "unfreeze", false, http.StatusOK)
		w.all("what was held back", w.has("b"))
	})
}
