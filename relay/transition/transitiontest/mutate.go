package transitiontest

import (
	"fmt"

	"xdsrelay/relay/transition"
)

// Mutate changes each cell that can be reached, each part of it by itself: whether it is legal, each
// part of the next state to each other value, and each bit of the output. It returns how many
// changes it made, and those that [Machine.Agrees] does not notice.
func (m *Machine[S, E, O, M]) Mutate() (mutants int, unnoticed []error) {
	for s := range m.Reachable() {
		i := m.Number(s)
		for e := range E(m.Table.Events) {
			was := m.Table.Cell(e, i)
			for _, c := range m.mutationsOf(was) {
				mutants++
				if m.Agrees(m.Table.With(e, i, c)) == nil {
					unnoticed = append(unnoticed, fmt.Errorf("%s: %v while %v: %+v instead of %+v is not noticed", m.Table.Name, e, s, c, was))
				}
			}
		}
	}
	return mutants, unnoticed
}

// mutationsOf are the cells that differ from c in one part.
func (m *Machine[S, E, O, M]) mutationsOf(c transition.Cell[S, O]) (all []transition.Cell[S, O]) {
	all = append(all, transition.Cell[S, O]{To: c.To, Output: c.Output, Legal: !c.Legal})
	if !c.Legal {
		return all
	}
	to := m.Table.PartsOf(m.Number(c.To))
	for part, values := range m.Table.Parts {
		for v := range uint8(values) {
			if other := to; v != to[part] {
				other[part] = v
				all = append(all, transition.Cell[S, O]{To: m.Table.Of(other), Output: c.Output, Legal: true})
			}
		}
	}
	for i := range m.Outputs {
		all = append(all, transition.Cell[S, O]{To: c.To, Output: c.Output ^ 1<<i, Legal: true})
	}
	return all
}
