package transition_test

import (
	"testing"

	"xdsrelay/relay/transition"
)

type cell = transition.Cell[door, sound]

var doors = tableOf(rows())

// TestTable holds each cell of a table: that of its row, or an illegal one that keeps the state.
func TestTable(t *testing.T) {
	var shut, locked, open, both = door{0, 0}, door{0, 1}, door{1, 0}, door{1, 1}
	for d, want := range map[door][events]cell{
		shut:   {{open, 0, true}, {locked, click, true}},
		locked: {{locked, 0, true}, {shut, click, true}},
		open:   {{open, 0, true}, {open, 0, false}},
		both:   {{both, 0, false}, {both, 0, false}},
	} {
		if got := doors.State(d.number()); got != d {
			t.Errorf("the state %d is %v, expected %v", d.number(), got, d)
		}
		for e := range events {
			if got := doors.Cell(e, d.number()); got != want[e] {
				t.Errorf("%v while %v: %+v, expected %+v", e, d, got, want[e])
			}
			if got := doors.Output(e, d.number()); got != want[e].Output {
				t.Errorf("%v while %v: the output %d, expected %d", e, d, got, want[e].Output)
			}
		}
	}
	if n := doors.States(); n != 4 {
		t.Errorf("%d states, expected 4", n)
	}
}

// TestTooLarge holds that a machine of too many states or events is refused, and one whose parts do
// not fit into the sets of a row.
func TestTooLarge(t *testing.T) {
	for _, tc := range []struct {
		parts  []int
		events int
		want   string
	}{
		{[]int{8, 8, 2}, 16, ""},
		{[]int{8, 8, 3}, 16, "door: 192 states and 16 events, expected at most 128 and 24"},
		{[]int{8}, 25, "door: 8 states and 25 events, expected at most 128 and 24"},
		{[]int{2, 2, 2, 2, 2}, 2, "door: a state of the parts [2 2 2 2 2], expected at most 4 of at most 8 values"},
		{[]int{9, 2}, 2, "door: a state of the parts [9 2], expected at most 4 of at most 8 values"},
	} {
		func() {
			defer func() {
				if got := recover(); got != nil && got != tc.want || got == nil && tc.want != "" {
					t.Errorf("panicked with %v, expected %q", got, tc.want)
				}
			}()
			transition.New(transition.Shape[door]{
				Name: "door", Parts: tc.parts, Events: tc.events, Of: func(transition.Parts) door { return door{} },
			}, rows())
		}()
	}
}

// TestWith holds that a table does not change when another is made of it.
func TestWith(t *testing.T) {
	was, other := doors.Cell(push, 0), cell{door{1, 1}, click, true}
	if got := doors.With(push, 0, other).Cell(push, 0); got != other {
		t.Errorf("the copy has %+v, expected %+v", got, other)
	}
	if got := doors.Cell(push, 0); got != was {
		t.Errorf("the table has %+v, expected %+v", got, was)
	}
}

// TestIllegal holds that an illegal event panics in builds with the race detector, with a message
// that names the machine, the event and the state, and that it changes nothing in others.
func TestIllegal(t *testing.T) {
	d := door{1, 0}
	defer func() {
		if r := recover(); (r != nil) != transition.Checked || transition.Checked && r != "door: turn while open" {
			t.Errorf("panicked with %v", r)
		}
		if d != (door{1, 0}) {
			t.Errorf("the state is %v", d)
		}
	}()
	if output := doors.Step(&d, d.number(), turn); output != 0 {
		t.Errorf("the output is %d", output)
	}
}

// TestCost holds that a step allocates nothing.
func TestCost(t *testing.T) {
	var d door
	if n := testing.AllocsPerRun(100, func() { doors.Step(&d, d.number(), turn) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkStep(b *testing.B) {
	b.ReportAllocs()
	var d door
	for b.Loop() {
		doors.Step(&d, d.number(), turn)
	}
}
