package cache

import (
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/cache/link"
)

// TestTakeOver: K16: the removal of what a node has that was not asked before the control plane is
// held back, once the node is known, for as long as there; but not if a few resources are missing,
// if this node had them and they were removed, or if they may have been removed long ago.
func TestTakeOver(t *testing.T) {
	both := []string{"a", "b"}
	for name, tc := range map[string]struct {
		before, now []string      // what the control plane had, and has
		theirs      []string      // what the other node has
		age         time.Duration // of that
		left        time.Duration // of the hold there; 0 for none
		taken       []string
		hold        time.Duration // for which that is held back
	}{
		"held back there":          {theirs: both, left: 20 * time.Second, taken: both, hold: 20 * time.Second},
		"not judged there":         {theirs: both, taken: both, hold: 5 * time.Minute},
		"a moment old":             {theirs: both, age: 5 * time.Second, taken: both, hold: 5 * time.Minute},
		"long out of touch":        {theirs: both, age: time.Hour},
		"held back for long":       {theirs: both, age: time.Hour, left: time.Minute, taken: both, hold: time.Minute},
		"most of a set":            {now: []string{"a"}, theirs: []string{"a", "b", "c"}, taken: []string{"b", "c"}, hold: 5 * time.Minute},
		"a few":                    {now: []string{"a", "b"}, theirs: []string{"a", "b", "c"}},
		"gone before, one by one":  {before: both, theirs: both},
		"as the origin has it now": {now: both, theirs: both},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, guarding, func(t *testing.T, w *world) {
				w.feed.AwaitOthers()
				c := w.client(clusters, true)
				w.feed.Asked()
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.feed.Apply(Update{Type: clusters, Full: true, Resources: res2(tc.before...)})
				for _, n := range tc.before {
					w.feed.Apply(Update{Type: clusters, Removed: []string{n}})
					w.group.Release()
				}
				w.feed.Apply(Update{Type: clusters, Resources: res2(tc.now...)})
				c.ask(t, Query{})
				k := keptSet(time.Now().Add(-tc.age), tc.theirs...)
				if tc.left > 0 {
					k.HeldBack, k.HoldUntil = true, time.Now().Add(tc.left)
				}
				if taken := w.feed.TakeOver([]Snapshot{k}); taken != (len(tc.taken) > 0) {
					t.Errorf("taken %t", taken)
				}
				expect(t, c.ask(t, Query{}), tc.taken...)
				for _, n := range tc.taken {
					if _, claimed := w.feed.Held(clusters)[n]; claimed {
						t.Errorf("%s is claimed from the origin", n)
					}
				}
				if len(tc.taken) == 0 {
					return
				}
				pass(tc.hold - time.Millisecond)
				expect(t, c.ask(t, Query{}))
				pass(2 * time.Millisecond)
				var gone []string
				for _, n := range tc.taken {
					gone = append(gone, "-"+n)
				}
				expect(t, c.ask(t, Query{}), gone...)
			})
		})
	}
}

// TestTakeOverHeld: K16: what a node holds back that has restored an old record is replaced by what
// another node holds back that the control plane served later, and stays held back.
func TestTakeOverHeld(t *testing.T) {
	for name, tc := range map[string]struct {
		age    time.Duration // of what the other node holds back; negative if it holds nothing back
		frozen bool
		taken  []string
	}{
		"newer":         {age: time.Minute, taken: []string{"d", "b", "-c"}},
		"frozen":        {age: time.Minute, frozen: true},
		"older":         {age: time.Hour},
		"not held back": {age: -1},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, guarding, func(t *testing.T, w *world) {
				began := time.Now()
				w.group.RestoreFrom(keptSet(began.Add(-30*time.Minute), "a", "b", "c"))
				w.feed.AwaitOthers()
				c := w.client(clusters, true)
				w.feed.Asked()
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.feed.Apply(Update{Type: clusters, Full: true})
				expect(t, c.ask(t, Query{}), "a", "b", "c")
				if tc.frozen {
					w.cache.Freeze(w.group.Key, Freeze{Reason: "test"})
				}
				theirs := keptSet(time.Now(), "a", "d")
				theirs.Resources = append(theirs.Resources, SnapshotResource{Resource: res("b", "2"), Streams: 1})
				if tc.age >= 0 {
					theirs.HeldBack, theirs.HeldAsOf, theirs.HoldUntil = true, time.Now().Add(-tc.age), time.Now().Add(time.Minute)
				}
				for range 2 {
					w.feed.TakeOver([]Snapshot{theirs})
				}
				expect(t, c.ask(t, Query{}), tc.taken...)
				pass(4 * time.Minute)
				expect(t, c.ask(t, Query{}))
				asOf := 30 * time.Minute
				if len(tc.taken) > 0 {
					asOf = tc.age
				}
				if got := w.group.Snapshots()[0]; !got.HeldBack || !got.HeldAsOf.Equal(began.Add(-asOf)) {
					t.Errorf("held back %t, as of %s", got.HeldBack, got.HeldAsOf)
				}
			})
		})
	}
}

// TestTakeOverChildren: K16, E8: resources that are taken over bring what they refer to, even if
// the control plane has answered that this does not exist, or has not answered. Children of other
// parents stay away. Resources that the control plane has again stay.
func TestTakeOverChildren(t *testing.T) {
	for name, answered := range map[string]bool{"answered": true, "not answered": false} {
		t.Run(name, func(t *testing.T) {
			inTime(t, guarding, func(t *testing.T, w *world) {
				w.feed.AwaitOthers()
				c, e := w.client(clusters, true), w.client(endpoints, false, "a", "b", "else")
				w.feed.Asked()
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.feed.Apply(Update{Type: clusters, Full: true})
				if answered {
					w.feed.Apply(Update{Type: endpoints, Removed: []string{"a", "b", "else"}})
				}
				c.ask(t, Query{})
				e.ask(t, Query{})
				set := Snapshot{Type: clusters, Wildcard: true, Streams: []SnapshotStream{{}}, AsOf: time.Now()}
				sets := Snapshot{Type: endpoints, Streams: []SnapshotStream{{}}, AsOf: time.Now()}
				for _, n := range []string{"a", "b"} {
					set.Resources = append(set.Resources, SnapshotResource{Resource: withEndpoints(n), Streams: 1})
				}
				for _, n := range []string{"a", "b", "else"} {
					sets.Resources = append(sets.Resources, SnapshotResource{Resource: endpointSet(t, n, 1), Streams: 1})
				}
				w.feed.TakeOver([]Snapshot{sets, set})
				expect(t, c.ask(t, Query{}), "a", "b")
				expect(t, e.ask(t, Query{}), "a", "b")
				w.remove(endpoints, "b") // the control plane's answer for a name that it does not have
				w.apply(clusters, withEndpoints("a"))
				w.apply(endpoints, endpointSet(t, "a", 1))
				pass(10 * time.Minute)
				expect(t, c.ask(t, Query{}), "-b")
				expect(t, e.ask(t, Query{}), "-b")
			})
		})
	}
}

// TestUnaskedNodes: K16: for a while, a node that was not asked before the control plane has to be
// asked after it, and until then follows nothing that removes what it has. Without the guard, or
// once the owner is asked instead of the control plane, there are no such nodes.
func TestUnaskedNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg   Config
		setUp func(w *world)
		want  []string
	}{
		"met one":             {guarding, func(w *world) { w.feed.Asked("b") }, []string{"c"}},
		"met the other then":  {guarding, func(w *world) { w.feed.Asked("b"); w.feed.Met([]string{"c"}) }, nil},
		"asked again":         {guarding, func(w *world) { w.feed.Asked("b", "c"); w.feed.Asked("c") }, []string{"b"}},
		"a while later":       {guarding, func(w *world) { w.feed.Asked("b"); pass(link.UnaskedFor) }, nil},
		"nothing was asked":   {guarding, func(*world) {}, nil},
		"the owner was asked": {guarding, func(w *world) { w.feed.Asked("b"); w.feed.Borrow(true); w.feed.Borrow(false); w.feed.Up() }, nil},
		"no guard":            {Config{}, func(w *world) { w.feed.Asked("b") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, tc.cfg, func(t *testing.T, w *world) {
				w.client(clusters, true)
				w.feed.AwaitOthers()
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.apply(clusters, res("a", "1"))
				tc.setUp(w)
				if got := w.feed.Unasked(func() []string { return []string{"b", "c"} }); !slices.Equal(got, tc.want) {
					t.Errorf("not asked yet: %v, expected %v", got, tc.want)
				}
				for _, n := range []string{"b", "c"} {
					if d, _ := w.group.Table(clusters).Doubtful(n); d != slices.Contains(tc.want, n) {
						t.Errorf("%s: doubtful %t", n, d)
					}
				}
			})
		})
	}
}
