package transition_test

import (
	"xdsrelay/relay/transition"
	"xdsrelay/relay/transition/transitiontest"
)

type (
	event uint8
	sound uint8
	set   = transition.Set[uint8]
)

const (
	push event = iota
	turn
	events
)

const (
	click sound = 1
	same        = transition.Same
)

// door is a state of two parts: open or not, and locked or not.
type door struct{ open, locked uint8 }

func (d door) number() int { return int(d.open)*2 + int(d.locked) }
func (d door) String() string {
	return [...]string{"shut", "open"}[d.open] + [...]string{"", " locked"}[d.locked]
}
func (e event) String() string { return [...]string{"push", "turn"}[e] }

type row struct {
	on           event
	open, locked set
	to           door
	output       sound
}

func (r row) Row() transition.Row[event, sound] {
	return transition.Row[event, sound]{
		On: r.on, In: transition.Parts{uint8(r.open), uint8(r.locked)}, To: transition.Parts{r.to.open, r.to.locked}, Output: r.output,
	}
}

var no, yes = transition.Only[uint8](0), transition.Only[uint8](1)

// rows agree with the facts. The state "open locked" cannot be reached.
func rows() []row {
	return []row{
		{on: push, locked: no, to: door{1, same}},
		{on: push, open: no, locked: yes, to: door{same, same}},
		{on: turn, open: no, locked: no, to: door{same, 1}, output: click},
		{on: turn, open: no, locked: yes, to: door{same, 0}, output: click},
	}
}

func tableOf(rows []row) transition.Table[door, event, sound] {
	return transition.New(transition.Shape[door]{
		Name: "door", Parts: []int{2, 2}, Events: int(events),
		Of: func(p transition.Parts) door { return door{p[0], p[1]} },
	}, rows)
}

// facts is the model: a door that is open cannot be locked.
type facts struct{ open, locked, clicked bool }

func (f *facts) possible(e event) bool { return e == push || !f.open }

func (f *facts) apply(e event) {
	f.open = f.open || e == push && !f.locked
	f.locked, f.clicked = f.locked != (e == turn), e == turn
}

func (f *facts) expected() (d door, s sound) {
	if f.open {
		d.open = 1
	}
	if f.locked {
		d.locked = 1
	}
	return d, transitiontest.Output(map[sound]bool{click: f.clicked})
}

func machineOf(rows []row) *transitiontest.Machine[door, event, sound, facts] {
	table := tableOf(rows)
	return &transitiontest.Machine[door, event, sound, facts]{
		Table: &table, Number: door.number, Outputs: []string{"click"},
		Possible: (*facts).possible, Apply: (*facts).apply, Expected: (*facts).expected,
		Forget: func(f *facts) { f.clicked = false },
	}
}
