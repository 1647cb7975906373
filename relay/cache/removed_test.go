package cache

import (
	"maps"
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

// TestRemoved: K16: a node reports a resource as removed if the node had it, does not hold its
// removal back, and was connected since.
func TestRemoved(t *testing.T) {
	of := func(names ...string) Update {
		return Update{Type: clusters, Full: true, Resources: res2(names...)}
	}
	for name, tc := range map[string]struct {
		then func(w *world, c *client)
		want []string
	}{
		"nothing was removed":  {func(*world, *client) {}, nil},
		"held back":            {func(w *world, _ *client) { w.feed.Apply(of("d")) }, nil},
		"held back until then": {func(w *world, _ *client) { w.feed.Apply(of("d")); pass(2 * time.Minute) }, []string{"a", "b", "c"}},
		"released":             {func(w *world, _ *client) { w.feed.Apply(of("d")); w.group.Release() }, []string{"a", "b", "c"}},
		"too few to hold back": {func(w *world, _ *client) { w.feed.Apply(of("b", "c", "d")) }, []string{"a"}},
		"by name":              {func(w *world, _ *client) { w.remove(clusters, "a") }, []string{"a"}},
		"by the owner": {func(w *world, _ *client) {
			w.feed.Borrow(true)
			w.feed.Up()
			w.feed.Apply(Update{Type: clusters, Mirror: &Mirror{}, Removed: []string{"a", "b", "c"}})
		}, []string{"a", "b", "c"}},
		"before another owner": {func(w *world, _ *client) {
			w.remove(clusters, "a")
			w.feed.Borrow(true)
		}, []string{"a"}},
		"back since": {func(w *world, _ *client) {
			w.remove(clusters, "a")
			w.apply(clusters, res("a", "2"))
		}, nil},
		"before a short break": {func(w *world, _ *client) {
			w.remove(clusters, "a")
			w.feed.Down(errOut)
			pass(time.Second)
			w.feed.Up()
		}, []string{"a"}},
		"before a long break": {func(w *world, _ *client) {
			w.remove(clusters, "a")
			w.feed.Down(errOut)
			pass(time.Minute)
			w.feed.Up()
		}, nil},
		"in the moment in which the break ends": {func(w *world, _ *client) {
			w.feed.Down(errOut)
			pass(time.Minute)
			w.feed.TakeDemand(true, true)
			w.feed.Up()
			w.feed.Apply(of("b", "c", "d"))
		}, []string{"a"}},
		"out of reach": {func(w *world, _ *client) {
			w.remove(clusters, "a")
			w.feed.Down(errOut)
			pass(time.Minute)
		}, nil},
		"wanted again": {func(w *world, c *client) {
			w.client(endpoints, false, "else") // keeps the key in use
			w.remove(clusters, "a")
			c.table.Leave(&c.w)
			pass(time.Hour)
			w.client(clusters, true)
			w.feed.Apply(of("b", "c", "d"))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{MaxRemovalPercent: 50, RemovalHold: time.Minute, Linger: time.Second}, func(t *testing.T, w *world) {
				c := w.client(clusters, true)
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.feed.Apply(of("a", "b", "c", "d"))
				c.ask(t, Query{})
				pass(time.Minute)
				tc.then(w, c)
				got := w.feed.Removed(map[string][]string{clusters.URL: {"a", "b", "c", "d", "e"}, endpoints.URL: {"a"}})
				if len(got) > 1 || !slices.Equal(got[clusters.URL], tc.want) || w.feed.HasRemoved() != (tc.want != nil) {
					t.Errorf("%v, and any: %t", got, w.feed.HasRemoved())
				}
			})
		})
	}
}

// TestRemoveHeld: K16: a resource that another node has removed, and whose removal is held back
// here, is removed at once with what it refers to. The rest is held back for as long as before.
func TestRemoveHeld(t *testing.T) {
	inTime(t, guarding, func(t *testing.T, w *world) {
		f := newFamily(t, w)
		w.remove(clusters, "a", "b", "c")
		w.remove(endpoints, "a", "b", "c")
		pass(time.Minute)
		held := w.group.HeldBack("")
		slices.Sort(held[clusters.URL])
		if want := map[string][]string{clusters.URL: {"a", "b", "c"}}; !maps.EqualFunc(held, want, slices.Equal) {
			t.Errorf("held back: %v", held)
		}
		if n := w.group.RemoveHeld("", map[string][]string{clusters.URL: {"a", "b", "d", "e"}, "unknown": {"c"}}); n != 4 {
			t.Errorf("%d removals", n)
		}
		expect(t, f.clusters.ask(t, Query{}), "-a", "-b")
		expect(t, f.endpoints.ask(t, Query{}), "-a", "-b")
		if got := w.group.HeldBack("")[clusters.URL]; !slices.Equal(got, []string{"c"}) {
			t.Errorf("held back: %q", got)
		}
		pass(guarding.RemovalHold - time.Minute - time.Second)
		expect(t, f.clusters.ask(t, Query{}))
		pass(2 * time.Second)
		expect(t, f.clusters.ask(t, Query{}), "-c")
		expect(t, f.endpoints.ask(t, Query{}), "-c")
	})
}

// TestRemoveHeldWhileIdle: K16: removals of an idle key are held back for longer than the hold,
// because nothing can confirm them. A resource that another node has removed is removed here, too,
// and new clients of the key do not receive it.
func TestRemoveHeldWhileIdle(t *testing.T) {
	inTime(t, Config{MaxRemovalPercent: 50, RemovalHold: time.Minute, Linger: time.Second}, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		w.feed.TakeDemand(true, true)
		w.feed.Up()
		w.apply(clusters, res2("a", "b", "c", "d")...)
		w.remove(clusters, "a", "b", "c")
		c.table.Leave(&c.w)
		w.cache.Leave(w.group)
		pass(90 * time.Second)
		if !w.cache.GroupInfos()[0].Idle {
			t.Fatal("the key is not idle")
		}
		held := w.group.HeldBack("")[clusters.URL]
		if slices.Sort(held); !slices.Equal(held, []string{"a", "b", "c"}) {
			t.Errorf("held back: %q", held)
		}
		if other := w.group.HeldBack("other"); len(other) != 0 || w.group.RemoveHeld("other", map[string][]string{clusters.URL: held}) != 0 {
			t.Errorf("held back on a leg that does not exist: %v", other)
		}
		if n := w.group.RemoveHeld("", map[string][]string{clusters.URL: held}); n != 3 {
			t.Errorf("%d removals", n)
		}
		w.join()
		expect(t, w.client(clusters, true).ask(t, Query{}), "d")
	})
}

// TestRemoveHeldOfParents: K16: a resource that another node has removed stays while its parents
// are held back, and is removed with them.
func TestRemoveHeldOfParents(t *testing.T) {
	inTime(t, guarding, func(t *testing.T, w *world) {
		listeners := resource.TypeOf(resource.ListenerURL)
		c, l := w.client(clusters, true), w.client(listeners, true)
		for _, one := range []*client{c, l} {
			w.apply(one.table.Type, res2("a", "b")...)
			one.ask(t, Query{})
			w.remove(one.table.Type, "a", "b")
		}
		if n := w.group.RemoveHeld("", map[string][]string{clusters.URL: {"a"}}); n != 0 {
			t.Errorf("%d removals, though listeners are held back", n)
		}
		expect(t, c.ask(t, Query{}))
		if held := w.group.HeldBack("")[clusters.URL]; len(held) != 2 {
			t.Errorf("held back: %q", held)
		}
		w.group.RemoveHeld("", map[string][]string{clusters.URL: {"a", "b"}, listeners.URL: {"a", "b"}})
		expect(t, l.ask(t, Query{}), "-a", "-b")
		expect(t, c.ask(t, Query{}), "-a", "-b")
	})
}
