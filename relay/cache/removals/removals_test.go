package removals

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

var (
	now   = time.Unix(1e9, 0)
	later = now.Add(time.Minute)
)

func set(names ...string) map[string]struct{} {
	s := make(map[string]struct{})
	for _, n := range names {
		s[n] = struct{}{}
	}
	return s
}

// TestLoss: K16: more than the share of a set, or all of it, is a mass removal; exactly the share is
// none. Without a guard, a small set may lose everything.
func TestLoss(t *testing.T) {
	for _, tt := range []struct {
		loss              Loss
		exceeds50, isMass bool
	}{
		{loss: Loss{Removed: 0, Before: 10, Now: 10}},
		{loss: Loss{Removed: 5, Before: 10, Now: 10}},
		{loss: Loss{Removed: 6, Before: 10, Now: 10}, exceeds50: true, isMass: true},
		{loss: Loss{Removed: 6, Before: 10, Now: 20}, exceeds50: true, isMass: true},
		{loss: Loss{Removed: 3, Before: 10, Now: 3}, exceeds50: true, isMass: true},
		{loss: Loss{Removed: 4, Before: 4, Now: 4}, exceeds50: true},
		{loss: Loss{Removed: 5, Before: 5, Now: 5}, exceeds50: true, isMass: true},
	} {
		if got := tt.loss.Exceeds(50); got != tt.exceeds50 {
			t.Errorf("%+v exceeds half of the set: %t", tt.loss, got)
		}
		if got := tt.loss.Mass(); got != tt.isMass {
			t.Errorf("%+v is a mass removal: %t", tt.loss, got)
		}
	}
}

// TestDue states what is done with a hold, in each state and at each time (K16): a mass removal ends
// with its time, if the control plane can be asked; what is kept for parents is examined when these are
// gone, too.
func TestDue(t *testing.T) {
	none := func() Hold { return Hold{} }
	parents := func() (h Hold) {
		h.HoldForParents("a", nil, later, Evidence{})
		return h
	}
	mass := func() (h Hold) {
		h.HoldMass(set("a"), later, later, Evidence{})
		return h
	}
	endless := func() (h Hold) {
		h.HoldMass(set("a"), time.Time{}, time.Time{}, Evidence{})
		return h
	}
	type cell struct {
		over, parentsGone, revocable bool
	}
	ends := func(c cell) Step {
		switch {
		case !c.over:
			return Stay
		case c.revocable:
			return End
		}
		return Extend
	}
	for _, tt := range []struct {
		name string
		hold func() Hold
		want func(cell) Step
	}{
		{"nothing", none, func(cell) Step { return Stay }},
		{"for parents", parents, func(c cell) Step {
			if c.over || c.parentsGone {
				return End
			}
			return Stay
		}},
		{"a mass removal", mass, ends},
		{"a mass removal without end", endless, func(cell) Step { return Stay }},
		{"a mass removal of what was kept for parents", func() Hold {
			h := parents()
			h.HoldMass(set("a", "b"), later, time.Time{}, Evidence{})
			return h
		}, ends},
		{"a mass removal without end of what was kept for parents", func() Hold {
			h := parents()
			h.HoldMass(set("a", "b"), time.Time{}, time.Time{}, Evidence{})
			return h
		}, func(cell) Step { return Stay }},
		{"a mass removal, and more for parents", func() Hold {
			h := endless()
			h.HoldForParents("b", nil, later, Evidence{})
			return h
		}, func(cell) Step { return Stay }},
	} {
		for i := range 8 {
			c := cell{i&1 > 0, i&2 > 0, i&4 > 0}
			h, at := tt.hold(), now
			if c.over {
				at = later
			}
			if got := h.Due(at, c.parentsGone, func() bool { return c.revocable }); got != tt.want(c) {
				t.Errorf("%s, %+v: step %d, expected %d", tt.name, c, got, tt.want(c))
			}
		}
	}
}

// TestHold: K16: names are held back until they are released, all or some; what joins a mass removal
// gets a full hold; the oldest evidence counts.
func TestHold(t *testing.T) {
	var h Hold
	is := func(reason Reason, until time.Time, names ...string) {
		t.Helper()
		if got := slices.Sorted(h.Names()); h.Reason() != reason || !h.Until().Equal(until) || !slices.Equal(got, names) || h.Len() != len(names) {
			t.Fatalf("reason %d until %v: %q, expected %d until %v: %q", h.Reason(), h.Until(), got, reason, until, names)
		}
	}
	outcome := func(got Outcome, begins, more bool) {
		t.Helper()
		if got != (Outcome{begins, more}) {
			t.Fatalf("%+v, expected %t and %t", got, begins, more)
		}
	}
	replacement := &resource.Resource{Name: "a"}
	outcome(h.HoldForParents("a", replacement, now, Evidence{AsOf: now}), true, true)
	outcome(h.HoldForParents("a", replacement, later, Evidence{AsOf: later}), false, false)
	is(Parents, now, "a")
	outcome(h.HoldMass(set("a", "b"), later, now, Evidence{AsOf: later, Restored: true}), true, true)
	is(Mass, later, "a", "b")
	outcome(h.HoldMass(set("b"), now, now, Evidence{AsOf: later}), false, false)
	is(Mass, later, "a", "b")
	outcome(h.HoldMass(set("c", "d"), now, later.Add(1), Evidence{AsOf: later}), false, true)
	is(Mass, later.Add(1), "a", "b", "c", "d")
	if got := h.Evidence(); got != (Evidence{AsOf: now, Restored: true}) {
		t.Errorf("the evidence is %+v", got)
	}
	h.ReleaseOthers(set("b", "c", "d", "x"))
	is(Mass, later.Add(1), "b", "c", "d")
	outcome(h.HoldForParents("a", replacement, now, Evidence{AsOf: now}), false, true)
	if got := fmt.Sprint(slices.Sorted(maps.Keys(h.TakeSome([]string{"b", "x"})))); got != "[b]" {
		t.Errorf("%s is taken", got)
	}
	h.Release("c")
	is(Mass, later.Add(1), "a", "d")
	if got := h.Take(); len(got) != 2 || got["a"] != replacement || got["d"] != nil {
		t.Errorf("%v is taken", got)
	}
	is(None, time.Time{})
	h.HoldMass(set("a"), later, later, Evidence{AsOf: now, Restored: true})
	h.Release("a")
	is(None, time.Time{})
	if got := h.Evidence(); got != (Evidence{}) {
		t.Errorf("nothing is held back, and the evidence is %+v", got)
	}
}
