package cache

import (
	"slices"
	"testing"

	"xdsrelay/relay/resource"
)

// TestEqualSubscriptionsAreOne: clients with the same interest share one object, in any order of
// the names and however they got it.
func TestEqualSubscriptionsAreOne(t *testing.T) {
	w := start(t, Config{})
	a, b := w.client(clusters, false, "x", "y"), w.client(clusters, false, "y", "x", "x")
	c := w.client(clusters, true, "x", "z")
	c.table.Edit(&c.w, Edit{Add: []string{"y"}, Remove: []string{"z"}, RemoveWildcard: true})
	if a.w.sub != b.w.sub || a.w.sub != c.w.sub || a.head().Subscription != c.head().Subscription {
		t.Fatalf("%+v, %+v, %+v", a.head(), b.head(), c.head())
	}
	got := a.w.sub.Watchers(nil)
	if len(got) != 3 || !slices.Contains(got, Client(a)) || !slices.Contains(got, Client(b)) || !slices.Contains(got, Client(c)) {
		t.Fatalf("%d watchers", len(got))
	}
	others := []*client{w.client(clusters, true, "x", "y"), w.client(clusters, false, "xy"), w.client(clusters, false), w.client(endpoints, false, "x", "y")}
	for _, o := range others {
		if o.w.sub == a.w.sub || o.head().Subscription == a.head().Subscription {
			t.Fatalf("%+v is shared with %+v", o.head(), a.head())
		}
	}
	sub := a.w.sub
	for _, c := range []*client{a, b, c} {
		c.table.Leave(&c.w)
		c.table.Leave(&c.w) // a second time is harmless
	}
	if len(sub.Watchers(nil)) != 0 || a.head() != (SubscriptionState{}) {
		t.Fatal("somebody is still there")
	}
}

// TestOneClientsSubscriptionChangesInPlace: under a new id for each content, so
// that no body built for one content is taken for another's.
func TestOneClientsSubscriptionChangesInPlace(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, false, "a")
	sub, seen := c.w.sub, map[uint64]bool{c.head().Subscription: true}
	for _, e := range []Edit{{Add: []string{"b"}}, {AddWildcard: true}, {Remove: []string{"b"}}, {RemoveWildcard: true}} {
		c.table.Edit(&c.w, e)
		if id := c.head().Subscription; c.w.sub != sub || seen[id] {
			t.Fatalf("after %+v: id %d again, or another object", e, id)
		}
		seen[c.head().Subscription] = true
	}
	id := c.head().Subscription
	c.table.Edit(&c.w, Edit{Add: []string{"a"}, Remove: []string{"nothing"}})
	if c.head().Subscription != id {
		t.Fatal("an edit that changes nothing gives a new id")
	}
}

// TestEdits: B22, B23: the result of an edit.
func TestEdits(t *testing.T) {
	w := start(t, Config{})
	c := &client{table: w.group.Table(clusters)}
	for _, x := range []struct {
		edit           Edit
		added, removed []string
		joined         bool
		names          int
		wild           bool
	}{
		{edit: Edit{AddWildcard: true}, joined: true, wild: true},
		{edit: Edit{Add: []string{"a", "b"}, AddWildcard: true}, added: []string{"a", "b"}, names: 2, wild: true},
		{edit: Edit{Add: []string{"a"}, Remove: []string{"b", "nothing"}}, removed: []string{"b"}, names: 1, wild: true},
		{edit: Edit{Add: []string{"c"}, Remove: []string{"c"}}, names: 1, wild: true},
		{edit: Edit{Add: []string{"a"}, Remove: []string{"a"}}, removed: []string{"a"}, wild: true},
		{edit: Edit{AddWildcard: true, RemoveWildcard: true}},
		{edit: Edit{AddWildcard: true, RemoveWildcard: true}},
	} {
		got := c.table.Edit(&c.w, x.edit)
		slices.Sort(got.Added)
		h := c.head()
		if !slices.Equal(got.Added, x.added) || !slices.Equal(got.Removed, x.removed) || got.Wildcard != x.joined || h.Names != x.names || h.HasWildcard() != x.wild {
			t.Fatalf("%+v: %+v, %+v", x.edit, got, h)
		}
	}
}

// TestWakeOnlyWhoIsConcerned: a change wakes the subscriptions to a changed name or the wildcard,
// and no other.
func TestWakeOnlyWhoIsConcerned(t *testing.T) {
	w := start(t, Config{})
	all, a, b, ab := w.client(endpoints, true), w.client(endpoints, false, "a"), w.client(endpoints, false, "b"), w.client(endpoints, false, "a", "b")
	w.feed.TakeDemand(true, false)
	w.apply(endpoints)
	w.nap()
	w.apply(endpoints, res("a", "1"))
	if len(w.woke()) != 3 || w.woke()[b.w.sub] || !w.woke()[all.w.sub] || !w.woke()[a.w.sub] || !w.woke()[ab.w.sub] {
		t.Fatalf("%d woken", len(w.woke()))
	}
}

// TestUnchangedIsKept: D2: of a full state that a server sends again, the relay keeps what it has.
func TestUnchangedIsKept(t *testing.T) {
	w := start(t, Config{})
	w.client(clusters, true)
	w.feed.TakeDemand(true, false)
	if w.feed.Earlier(resource.TypeOf(resource.ListenerURL)).Get != nil {
		t.Error("there are resources of a type without clients")
	}
	w.apply(clusters, res("a", "1"))
	earlier := w.feed.Earlier(clusters)
	if r := earlier.Get([]byte("a")); r == nil || r.Name != "a" || string(r.Body) != "1" {
		t.Errorf("%+v", r)
	}
	w.remove(clusters, "a")
	for _, name := range []string{"a", "b"} {
		if r := earlier.Get([]byte(name)); r != nil {
			t.Errorf("%+v", r)
		}
	}
}
