package transitiontest

import (
	"fmt"
	"iter"

	"xdsrelay/relay/transition"
)

// Machine is a table and the model of its rules, M.
type Machine[S transition.State, E transition.Name, O ~uint8, M comparable] struct {
	Table *transition.Table[S, E, O]
	// Number returns the number of a state.
	Number func(S) int
	// Outputs are the names of the bits of an output, from the lowest one on.
	Outputs []string

	// Start is the model in the first state, which has the number 0.
	Start M
	// Possible reports whether the caller of the machine can cause an event.
	Possible func(*M, E) bool
	// Apply makes an event happen that is possible.
	Apply func(*M, E)
	// Forget clears what the model knows of the output of the last event.
	Forget func(*M)
	// Expected returns the state and the output that the last event must have led to.
	Expected func(*M) (S, O)
}

// Step is an event in a state, with the model before and after it. If the event is not possible,
// both are the same.
type Step[S, E, O, M any] struct {
	State         S
	Event         E
	Cell          transition.Cell[S, O]
	Before, After M
}

// Walk follows every event from the first state on, as far as a table leads. It calls visit for each
// step until that returns an error.
func (m *Machine[S, E, O, M]) Walk(t *transition.Table[S, E, O], visit func(*Step[S, E, O, M]) error) error {
	type position struct {
		number int
		model  M
	}
	first := position{0, m.Start}
	seen, queue := map[position]bool{first: true}, []position{first}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		for e := range E(t.Events) {
			step := Step[S, E, O, M]{t.State(p.number), e, t.Cell(e, p.number), p.model, p.model}
			if m.Possible(&p.model, e) {
				m.Apply(&step.After, e)
			}
			if err := visit(&step); err != nil {
				return err
			}
			if !step.Cell.Legal {
				continue
			}
			next := position{m.Number(step.Cell.To), step.After}
			if m.Forget(&next.model); !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// Agrees walks every cell of a table that can be reached, and returns the first one that contradicts
// the model.
func (m *Machine[S, E, O, M]) Agrees(t *transition.Table[S, E, O]) error {
	return m.Walk(t, func(step *Step[S, E, O, M]) error {
		switch possible := m.Possible(&step.Before, step.Event); {
		case possible && !step.Cell.Legal:
			return fmt.Errorf("%s: %v while %v is possible, and no row matches it", t.Name, step.Event, step.State)
		case !possible && step.Cell.Legal:
			return fmt.Errorf("%s: %v while %v is impossible, and leads to %v", t.Name, step.Event, step.State, step.Cell.To)
		case !possible:
			return nil
		}
		switch state, output := m.Expected(&step.After); {
		case step.Cell.To != state:
			return fmt.Errorf("%s: %v while %v leads to %v, expected %v", t.Name, step.Event, step.State, step.Cell.To, state)
		case step.Cell.Output != output:
			return fmt.Errorf("%s: %v while %v has the output %q, expected %q", t.Name, step.Event, step.State, m.bits(step.Cell.Output), m.bits(output))
		}
		return nil
	})
}

// Reachable returns the states that a sequence of legal events leads to.
func (m *Machine[S, E, O, M]) Reachable() map[S]bool {
	all := make(map[S]bool)
	_ = m.Walk(m.Table, func(step *Step[S, E, O, M]) error { // it returns what visit returns
		all[step.State] = true
		return nil
	})
	return all
}

// Live returns the states that can be reached, in order.
func (m *Machine[S, E, O, M]) Live() (live []S) {
	reachable := m.Reachable()
	for _, s := range All(m.Table) {
		if reachable[s] {
			live = append(live, s)
		}
	}
	return live
}

// All goes through all states of a table by their numbers, with those that no event leads to.
func All[S transition.State, E transition.Name, O ~uint8](t *transition.Table[S, E, O]) iter.Seq2[int, S] {
	return func(yield func(int, S) bool) {
		for i := range t.States() {
			if !yield(i, t.State(i)) {
				return
			}
		}
	}
}

// bits are the names of the bits of an output.
func (m *Machine[S, E, O, M]) bits(output O) (names []string) {
	for i, name := range m.Outputs {
		if output&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Output returns the output with those bits that are set.
func Output[O ~uint8](bits map[O]bool) (output O) {
	for bit, on := range bits {
		if on {
			output |= bit
		}
	}
	return output
}
