package transition

import (
	"fmt"
	"slices"
)

// State is a state of a machine.
type State interface {
	comparable
	fmt.Stringer
}

// Name is an event or an output of a machine.
type Name interface {
	~uint8
	fmt.Stringer
}

// Shape is what the states and events of a machine are.
type Shape[S State] struct {
	// Name begins the messages about the machine.
	Name string
	// Parts are how many values each part of a state has, from the most significant one on: states
	// are numbered in this order.
	Parts []int
	// Of returns the state that has these parts.
	Of func(Parts) S
	// Events is how many events there are.
	Events int
}

// Cell is a cell of a table: the transition of one event in one state. An illegal one keeps the
// state.
type Cell[S, O any] struct {
	To     S
	Output O
	Legal  bool
}

const (
	// MaxStates and MaxEvents are how many states and events a machine has at most.
	MaxStates = 128
	MaxEvents = 24
)

// Table has a cell for each event in each state. A machine keeps it as a variable of its package, so
// that the address of a cell needs no pointer.
type Table[S State, E Name, O ~uint8] struct {
	cells [MaxStates * MaxEvents]Cell[S, O] // of all events, state by state

	Shape[S]
	Rows []Row[E, O]
}

// New makes a table of rows. If several rows match a cell, the last one counts; package
// transitiontest finds those. It panics if there are too many states, events, parts or values.
func New[S State, E Name, O ~uint8, R interface{ Row() Row[E, O] }](shape Shape[S], rows []R) (t Table[S, E, O]) {
	t.Shape = shape
	if len(shape.Parts) > MaxParts || slices.Max(shape.Parts) > MaxValues {
		panic(fmt.Sprintf("%s: a state of the parts %v, expected at most %d of at most %d values", shape.Name, shape.Parts, MaxParts, MaxValues))
	}
	if t.States() > MaxStates || shape.Events > MaxEvents {
		panic(fmt.Sprintf("%s: %d states and %d events, expected at most %d and %d", shape.Name, t.States(), shape.Events, MaxStates, MaxEvents))
	}
	for _, r := range rows {
		t.Rows = append(t.Rows, r.Row())
	}
	for i := range t.States() {
		for e := range E(shape.Events) {
			*t.at(e, i) = Cell[S, O]{To: t.State(i)}
		}
		for _, r := range t.Rows {
			if p := t.PartsOf(i); r.Matches(p) {
				*t.at(r.On, i) = Cell[S, O]{shape.Of(r.next(p)), r.Output, true}
			}
		}
	}
	return t
}

// States returns how many states there are, with those that no event leads to.
func (t *Table[S, E, O]) States() int {
	n := 1
	for _, values := range t.Parts {
		n *= values
	}
	return n
}

// PartsOf returns the parts of the state with a number.
func (t *Table[S, E, O]) PartsOf(number int) (p Parts) {
	for i := len(t.Parts) - 1; i >= 0; i-- {
		p[i] = uint8(number % t.Parts[i])
		number /= t.Parts[i]
	}
	return p
}

// State returns the state with a number.
func (t *Table[S, E, O]) State(number int) S { return t.Of(t.PartsOf(number)) }

// Cell returns the cell of an event in the state with a number.
func (t *Table[S, E, O]) Cell(e E, number int) Cell[S, O] { return *t.at(e, number) }

// With returns a copy of the table with another cell, for tests.
func (t *Table[S, E, O]) With(e E, number int, c Cell[S, O]) *Table[S, E, O] {
	other := *t
	*other.at(e, number) = c
	return &other
}

// Output returns what the table has for an event in the state with a number; 0 if nothing.
func (t *Table[S, E, O]) Output(e E, number int) O { return t.at(e, number).Output }

// Step moves a state, which has a number, along the table and returns the output.
func (t *Table[S, E, O]) Step(s *S, number int, e E) O {
	c := t.at(e, number)
	if Checked && !c.Legal {
		panic(t.Name + ": " + e.String() + " while " + (*s).String())
	}
	*s = c.To
	return c.Output
}

func (t *Table[S, E, O]) at(e E, number int) *Cell[S, O] { return &t.cells[number*MaxEvents+int(e)] }
