package cache

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/resource"
)

func res2(names ...string) (rs []*resource.Resource) {
	for _, n := range names {
		rs = append(rs, res(n, "1"))
	}
	return rs
}

// TestHeldInSteps: held removals count as removed, so that a set that disappears in several
// responses is held back as a whole, and resources that are back no longer count (K16).
func TestHeldInSteps(t *testing.T) {
	inTime(t, Config{MaxRemovalPercent: 50, RemovalHold: time.Minute}, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		w.apply(clusters, res2("a", "b", "c", "d", "e")...)
		c.ask(t, Query{})
		w.remove(clusters, "e")
		expect(t, c.ask(t, Query{}), "-e") // a share that may be removed
		w.remove(clusters, "a", "b", "c")
		pass(30 * time.Second)
		w.remove(clusters, "d") // one of four, and the last one
		expect(t, c.ask(t, Query{}))
		expect(t, w.client(clusters, true).ask(t, Query{}), "a", "b", "c", "d")
		pass(59 * time.Second)
		w.apply(clusters, res2("a", "b", "c")...)
		w.remove(clusters, "a") // with d two of four
		expect(t, c.ask(t, Query{}), "-a")
		pass(2 * time.Second)
		expect(t, c.ask(t, Query{}), "-d")
	})
}

// TestHeldAgain: a mass removal that arrives while another one is held back is held for a full hold
// time, and the earlier one with it; a repetition is not (K16).
func TestHeldAgain(t *testing.T) {
	inTime(t, Config{MaxRemovalPercent: 50, RemovalHold: time.Minute}, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		w.apply(clusters, res2("a", "b", "c", "d")...)
		c.ask(t, Query{})
		w.remove(clusters, "a", "b", "c", "d")
		pass(30 * time.Second)
		w.apply(clusters, res("a", "2"), res("b", "2"), res("c", "2"))
		expect(t, c.ask(t, Query{}), "a", "b", "c")
		pass(20 * time.Second)
		w.remove(clusters, "a", "b", "c")
		pass(50 * time.Second)
		w.remove(clusters, "a", "b", "c") // nothing new
		expect(t, c.ask(t, Query{}))
		pass(11 * time.Second)
		expect(t, c.ask(t, Query{}), "-a", "-b", "-c", "-d")
	})
}

// TestRemovalsAreHeld: an answer that removes more than the share has its removals held back, and
// the rest of it is applied; a smaller one passes (K16).
func TestRemovalsAreHeld(t *testing.T) {
	for name, remove := range map[string]func(w *world, keep ...string) int{
		"by absence": func(w *world, keep ...string) int {
			u := Update{Type: clusters, Full: true}
			for _, n := range keep {
				u.Resources = append(u.Resources, res(n, "2"))
			}
			return w.feed.Apply(u)
		},
		"by name": func(w *world, keep ...string) int {
			u := Update{Type: clusters, Removed: []string{"a", "b", "c", "d"}}
			for _, n := range keep {
				u.Resources = append(u.Resources, res(n, "2"))
			}
			u.Removed = slices.DeleteFunc(u.Removed, func(n string) bool { return slices.Contains(keep, n) })
			return w.feed.Apply(u)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var alarms []MassRemoval
			w := start(t, Config{MaxRemovalPercent: 50, Alarm: func(h MassRemoval) { alarms = append(alarms, h) }})
			c := w.client(clusters, true)
			w.apply(clusters, res("a", "1"), res("b", "1"), res("c", "1"), res("d", "1"))
			c.ask(t, Query{})

			remove(w, "a")
			expect(t, c.ask(t, Query{}), "a") // changed, and nothing is removed
			if len(alarms) != 1 || alarms[0].Removals != 3 || alarms[0].Of != 4 || alarms[0].Type != clusters {
				t.Fatalf("alarms: %+v", alarms)
			}
			g := w.cache.GroupInfos()[0]
			if g.HeldRemovals != 3 || g.Tables[0].HeldRemovals != 3 || w.cache.RemovalsHeld() != 1 {
				t.Fatalf("%+v", g)
			}
			remove(w) // and now all of it
			expect(t, c.ask(t, Query{}))
			if len(alarms) != 1 {
				t.Fatalf("%d alarms for one hold", len(alarms))
			}
			w.apply(clusters, res("a", "2"), res("b", "1"), res("c", "1")) // they are back
			if held := w.cache.GroupInfos()[0].HeldRemovals; held != 1 {
				t.Fatalf("%d removals are held", held)
			}
			if n := w.group.Release(); n != 1 {
				t.Fatalf("%d removals were released", n)
			}
			expect(t, c.ask(t, Query{}), "-d")
			w.remove(clusters, "c")
			expect(t, c.ask(t, Query{}), "-c")
			w.client(endpoints, false, "e")
			w.apply(endpoints, res("e", "1"))
			if n := w.remove(endpoints, "e"); n != 1 { // no full-state type
				t.Fatalf("%d changes", n)
			}
		})
	}
}

// TestRemovalsAreHeldForATime: until the end of the hold the names are served, to new clients, too,
// and then they are removed (K16).
func TestRemovalsAreHeldForATime(t *testing.T) {
	inTime(t, Config{MaxRemovalPercent: 50, RemovalHold: time.Minute}, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		w.feed.Apply(Update{Type: clusters, Full: true, Version: "1", Resources: res2("a", "b")})
		c.ask(t, Query{})
		w.feed.Apply(Update{Type: clusters, Full: true, Version: "2"})
		pass(30 * time.Second)
		w.feed.Apply(Update{Type: clusters, Full: true, Version: "2"}) // does not extend the hold
		pass(29 * time.Second)
		expect(t, c.ask(t, Query{}))
		expect(t, w.client(clusters, true).ask(t, Query{}), "a", "b")
		w.nap()
		pass(2 * time.Second)
		if !w.woke()[c.w.sub] {
			t.Fatal("nobody was told")
		}
		got := c.ask(t, Query{})
		expect(t, got, "-a", "-b")
		if !got.Derived {
			t.Fatalf("version %q", got.Version)
		}
	})
}

// TestNoGuard: by default a control plane may remove everything at once (K16).
func TestNoGuard(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true)
	w.apply(clusters, res2("a", "b")...)
	c.ask(t, Query{})
	w.feed.Apply(Update{Type: clusters, Full: true})
	expect(t, c.ask(t, Query{}), "-a", "-b")
}

// TestMassRemovals: K16: without a guard an answer that removes most of a set that is not small is
// reported, and applied; one that removes less, or from a small set, is not reported.
func TestMassRemovals(t *testing.T) {
	for name, tc := range map[string]struct {
		typ        *resource.Type
		from, left []string
		mass       bool
	}{
		"most":                     {clusters, []string{"a", "b", "c", "d", "e", "f"}, []string{"a", "b"}, true},
		"all":                      {clusters, []string{"a", "b", "c", "d", "e"}, nil, true},
		"half":                     {clusters, []string{"a", "b", "c", "d", "e", "f"}, []string{"a", "b", "c"}, false},
		"all of a small set":       {clusters, []string{"a", "b", "c", "d"}, nil, false},
		"all of what has no whole": {endpoints, []string{"a", "b", "c", "d", "e"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, byName := range []bool{false, true} {
				var alarms []MassRemoval
				w := start(t, Config{Alarm: func(m MassRemoval) { alarms = append(alarms, m) }})
				c := w.client(tc.typ, true, tc.from...)
				w.apply(tc.typ, res2(tc.from...)...)
				c.ask(t, Query{})
				u := Update{Type: tc.typ, Resources: res2(tc.left...), Full: tc.typ.FullState && !byName}
				if !u.Full {
					u.Removed = slices.DeleteFunc(slices.Clone(tc.from), func(n string) bool { return slices.Contains(tc.left, n) })
				}
				w.feed.Apply(u)
				if n := len(c.ask(t, Query{}).Removed); n != len(tc.from)-len(tc.left) {
					t.Errorf("%d were removed", n)
				}
				want := 0
				if tc.mass {
					want = 1
				}
				if len(alarms) != want || int(w.cache.MassRemovals()) != want || w.cache.RemovalsHeld() != 0 {
					t.Errorf("alarms: %+v, %d mass removals", alarms, w.cache.MassRemovals())
				}
				for _, m := range alarms {
					if m.HeldBack || m.Removals != len(tc.from)-len(tc.left) || m.Of != len(tc.from) || m.Type != tc.typ {
						t.Errorf("%+v", m)
					}
				}
			}
		})
	}
}

// TestFollowersHoldNothing: removals by the owner of a key are applied, however many they are, and
// what it does not remove stays, even if this node was about to remove it (K16).
func TestFollowersHoldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Config{MaxRemovalPercent: 50, RemovalHold: time.Minute})
		c := w.client(clusters, true)
		w.apply(clusters, res("a", "1"), res("b", "1"), res("c", "1"))
		c.ask(t, Query{})
		w.feed.Apply(Update{Type: clusters, Full: true, Resources: res2("a")})
		held := func() int { return w.cache.GroupInfos()[0].HeldRemovals }
		if held() != 2 {
			t.Fatalf("%d removals are held", held())
		}
		w.feed.Apply(Update{Type: clusters, Mirror: &Mirror{}}) // another node owns the key now, and has the same content
		if held() != 0 {
			t.Fatalf("%d removals are held by a follower", held())
		}
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		expect(t, c.ask(t, Query{}))
		w.feed.Apply(Update{Type: clusters, Mirror: &Mirror{}, Removed: []string{"a", "b"}})
		expect(t, c.ask(t, Query{}), "-a", "-b")
	})
}
