package cache

import (
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

var routes = resource.TypeOf(resource.RouteURL)

// full applies a full-state answer with a version.
func (w *world) full(typ *resource.Type, version string, rs ...*resource.Resource) int {
	return w.feed.Apply(Update{Type: typ, Resources: rs, Full: true, Version: version})
}

// gets fails unless a client is sent exactly this: names, and after a minus removed ones.
func (c *client) gets(t *testing.T, what string, want ...string) Changes {
	t.Helper()
	got := c.ask(t, Query{})
	if names := said(got); !slices.Equal(names, want) {
		t.Errorf("%s: a client is sent %q, expected %q", what, names, want)
	}
	return got
}

// TestFrozen: Sum, K12: while a key is frozen, clients see nothing of what the control plane changes,
// and keep its old version; what it sends next is compared with what it has sent. One update brings
// all of it, with the newest version (D7).
func TestFrozen(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true)
	w.full(clusters, "1", res("a", "1"), res("b", "1"), res("c", "1"))
	c.gets(t, "before", "a", "b", "c")
	w.cache.Freeze(w.group.Key, Freeze{Reason: "test"})
	if n := w.full(clusters, "2", res("a", "2"), res("b", "1"), res("d", "1")); n != 0 {
		t.Errorf("%d changes", n)
	}
	c.gets(t, "frozen")
	late := w.client(clusters, true)
	if got := late.gets(t, "new while it is frozen", "a", "b", "c"); got.Version != "1" || string(got.Resources[0].Body) != "1" {
		t.Errorf("version %s, %s", got.Version, got.Resources[0].Body)
	}
	held := w.feed.Held(clusters)
	if len(held) != 3 || held["a"] != res("a", "2").Version || held["b"] != res("b", "1").Version || held["d"] == "" {
		t.Errorf("the versions for a new stream are %v (C8)", held)
	}
	if p := w.group.Pending(); len(p) != 1 || p[0].Added != 1 || p[0].Changed != 1 || p[0].Removed != 1 || !slices.Equal(p[0].Names, []string{"a", "c", "d"}) {
		t.Errorf("%+v is pending", p)
	}
	w.full(clusters, "3", res("a", "2"), res("b", "1")) // d never existed for clients
	c.gets(t, "frozen")
	w.full(clusters, "4", res("a", "2"), res("b", "1"), res("d", "1"))
	w.cache.Check()
	if n := w.cache.Unfreeze(w.group.Key); n != 3 {
		t.Errorf("%d changes", n)
	}
	got := c.ask(t, Query{})
	names := said(got)
	slices.Sort(names)
	if !slices.Equal(names, []string{"-c", "a", "d"}) || got.Version != "4" {
		t.Errorf("unfrozen: %q, version %s", names, got.Version)
	}
	if w.full(clusters, "5", res("a", "3"), res("b", "1"), res("d", "1")) != 1 {
		t.Error("it is still frozen")
	}
	c.gets(t, "later", "a")
}

// TestFrozenReturns: a control plane that returns to what clients see leaves nothing pending, and
// clients keep the version.
func TestFrozenReturns(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true)
	w.full(clusters, "1", res("a", "1"), res("b", "1"))
	c.gets(t, "before", "a", "b")
	w.cache.FreezeAll(Freeze{Reason: "test"})
	w.full(clusters, "2", res("a", "2"))
	w.full(clusters, "3", res("a", "1"), res("b", "1"))
	if p := w.group.Pending(); len(p) != 0 {
		t.Errorf("%v is pending", p)
	}
	if n := w.cache.UnfreezeAll(); n != 0 {
		t.Errorf("%d changes", n)
	}
	if got := c.gets(t, "unfrozen"); got.Version != "1" {
		t.Errorf("version %s", got.Version)
	}
}

// TestFrozenPasses: ROLLOUT 3: while a key is frozen, endpoints, heartbeats and resources with a TTL
// pass, as do refusals (K8), aliases, and names that a client waits for (K13). Members of the
// wildcard set do not.
func TestFrozenPasses(t *testing.T) {
	w := start(t, Config{})
	all, eds, rds := w.client(clusters, true), w.client(endpoints, false, "e"), w.client(routes, false, "r", "new")
	w.full(clusters, "1", res("a", "1"), res("b", "1"))
	w.apply(endpoints, res("e", "1"))
	w.apply(routes, res("r", "1"))
	all.gets(t, "before", "a", "b")
	eds.gets(t, "before", "e")
	rds.gets(t, "before", "r")
	w.cache.Freeze(w.group.Key, Freeze{})
	w.apply(endpoints, res("e", "2"))
	eds.gets(t, "endpoints", "e")
	w.apply(routes, res("r", "2"), res("new", "1"))
	rds.gets(t, "a route that nobody had", "new")
	w.apply(routes, res("new", "2"))
	rds.gets(t, "its change")
	w.apply(clusters, res("c", "1"))
	all.gets(t, "a new member")
	ttl := resource.New(resource.Resource{Name: "t", Body: []byte("1"), TTL: 1e12})
	w.apply(clusters, ttl)
	all.gets(t, "with a TTL", "t")
	w.apply(clusters, aliased("d", "1", "d2"))
	all.gets(t, "with an alias", "d")
	w.feed.Apply(Update{Type: clusters, Errors: []resource.About{{Name: "b", Code: resource.CodePermissionDenied}}})
	if w.group.Table(clusters).entryOf("b").Res != nil {
		t.Error("a refused cluster is shown")
	}
	w.feed.Apply(Update{Type: clusters, Errors: []resource.About{{Name: "a", Code: resource.CodeNotFound}}})
	if got := all.ask(t, Query{}); slices.Contains(said(got), "-a") || len(got.Errors) > 1 {
		t.Errorf("%q, %q", said(got), got.Errors)
	}
	onDemand := w.client(clusters, false, "late")
	w.apply(clusters, res("late", "1"))
	onDemand.gets(t, "on demand (E7)", "late")
	w.apply(clusters, ttl) // the same content is no change
	w.passed(t, map[Passage]uint64{PassesRequested: 2, PassesTTL: 1, PassesCollection: 1})
}

// passed fails unless so many changes passed the gates.
func (w *world) passed(t *testing.T, want map[Passage]uint64) {
	t.Helper()
	for why := range passageCount {
		if got := w.cache.Passed(why); got != want[why] {
			t.Errorf("%d changes passed for the reason %d, expected %d", got, why, want[why])
		}
	}
}

// TestFrozenUnknown: ROLLOUT 4.8: with nothing known at all, the control plane's state passes; its next
// one does not.
func TestFrozenUnknown(t *testing.T) {
	w := start(t, Config{})
	w.cache.FreezeAll(Freeze{})
	c := w.client(clusters, true)
	w.full(clusters, "1", res("a", "1"), res("b", "1"))
	c.gets(t, "first", "a", "b")
	w.full(clusters, "2", res("a", "1"), res("c", "1"))
	c.gets(t, "second")
	w.passed(t, map[Passage]uint64{PassesFirst: 2})
	if p := w.group.Pending(); len(p) != 1 || p[0].Added != 1 || p[0].Removed != 1 {
		t.Errorf("%+v is pending", p)
	}
}

// TestFrozenGuard: K16: the removal guard judges first. Removals that it holds back are not
// pending, and become pending once they are approved.
func TestFrozenGuard(t *testing.T) {
	w := start(t, Config{MaxRemovalPercent: 50})
	c := w.client(clusters, true)
	w.full(clusters, "1", res2("a", "b", "c", "d")...)
	c.gets(t, "before", "a", "b", "c", "d")
	w.cache.Freeze(w.group.Key, Freeze{})
	w.full(clusters, "2", append(res2("b", "c", "d"), res("e", "1"))...) // a is removed, e is new
	w.full(clusters, "3", res("e", "1"))                                 // three of four that it had
	pending := func(what string, added, removed int) {
		t.Helper()
		p := w.group.Pending()
		if len(p) != 1 || p[0].Added != added || p[0].Removed != removed {
			t.Errorf("%s: %+v is pending", what, p)
		}
	}
	pending("guarded", 1, 1)
	if held := w.group.Table(clusters).core.streams[0].guard.Len(); held != 3 {
		t.Errorf("the guard holds %d removals back", held)
	}
	c.gets(t, "guarded")
	w.group.Release()
	pending("approved", 1, 4)
	c.gets(t, "approved")
	w.cache.Unfreeze(w.group.Key)
	if got := said(c.ask(t, Query{})); len(got) != 5 {
		t.Errorf("unfrozen: %q", got)
	}
}

// TestFrozenInterest: what is pending, and what clients see instead, stays although no client asks for it: new
// clients see what the others saw, and a revision does not lose a part. The demand ends after the freeze.
func TestFrozenInterest(t *testing.T) {
	inTime(t, Config{Linger: time.Minute}, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		other := w.client(routes, false, "r", "steady")
		w.feed.TakeDemand(true, true)
		w.full(clusters, "1", res("a", "1"))
		w.apply(routes, res("r", "1"), res("steady", "1"))
		w.cache.Freeze(w.group.Key, Freeze{})
		w.full(clusters, "2", res("b", "1"))
		w.apply(routes, res("r", "2"))
		if p := w.group.Pending(); len(p) != 2 {
			t.Errorf("%v is pending", p)
		}
		c.table.Leave(&c.w)
		other.table.Leave(&other.w)
		pass(2 * time.Minute)
		if p := w.group.Pending(); len(p) != 2 {
			t.Errorf("%v is pending without clients of the types", p)
		}
		other.table.mu.RLock()
		if other.table.core.demand.Get("r") == nil || other.table.core.demand.Get("steady") != nil {
			t.Error("only the name with a pending change is asked for")
		}
		other.table.mu.RUnlock()
		c = w.client(clusters, true)
		c.gets(t, "new", "a")
		c.table.Leave(&c.w)
		pass(2 * time.Minute)
		w.cache.Unfreeze(w.group.Key)
		pass(2 * time.Minute)
		c.table.mu.RLock()
		asked := c.table.core.demand.Wildcard().Demanded()
		c.table.mu.RUnlock()
		if p := w.group.Pending(); len(p) != 0 || asked {
			t.Errorf("%v is pending, and asked for is %t", p, asked)
		}
	})
}

// TestViewOfNothing: canaries can be shown the first resources of a set that is known to be empty. Of a set
// of which nothing is known there is no view: clients wait for its first answer.
func TestViewOfNothing(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true)
	table := w.group.lookup(clusters)
	first := map[string]Replacement{"a": {Resource: res("a", "1"), Member: true}}
	if v := table.NewView(first, Stamp{}); v != nil {
		t.Errorf("a view of a set that is not known replaces %v", v.Names())
	}
	w.feed.TakeDemand(true, true)
	w.full(clusters, "1")
	v := table.NewView(first, Stamp{})
	if v == nil || table.Differ(&c.w, nil, v, false) == nil {
		t.Errorf("a client of an empty set is not affected by its first resource: %+v", v)
	}
}

// TestViewsOfTheSame: a client that enters a view from another one is sent nothing that both have, also where
// they were made of different messages: another node has sent the second after it had become the owner.
func TestViewsOfTheSame(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true)
	w.feed.TakeDemand(true, true)
	w.full(clusters, "1", res("a", "1"), res("b", "1"), res("c", "1"))
	table := w.group.lookup(clusters)
	view := func(b string) *View {
		return table.NewView(map[string]Replacement{"a": {Resource: res("a", "2"), Member: true}, "b": {Resource: res("b", b), Member: true}, "c": {}}, Stamp{})
	}
	if names := table.Differ(&c.w, view("2"), view("2"), false); names != nil {
		t.Errorf("two views of the same differ in %v", names)
	}
	if names := table.Differ(&c.w, view("2"), view("3"), false); !slices.Equal(names.list(), []string{"b"}) {
		t.Errorf("the views differ in %v, expected b", names)
	}
	if names := table.Differ(&c.w, view("2"), view("2"), true); !slices.Equal(names.list(), []string{"a", "b", "c"}) {
		t.Errorf("a client that may lack some is sent %v, expected all", names)
	}
}
