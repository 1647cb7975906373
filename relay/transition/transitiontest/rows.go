package transitiontest

import (
	"fmt"

	"xdsrelay/relay/transition"
)

// Rows returns what is wrong with the rows of a table: that two of them match the same cell, or that
// one matches no state of those that can be reached. Rows are counted from 0.
func Rows[S transition.State, E transition.Name, O ~uint8](t *transition.Table[S, E, O], reachable map[S]bool) (wrong []error) {
	matches, lives := make([]int, len(t.Rows)), make([]int, len(t.Rows))
	for i, s := range All(t) {
		matched := make(map[E]int)
		for n := range t.Rows {
			r := &t.Rows[n]
			if !r.Matches(t.PartsOf(i)) {
				continue
			}
			if other, dup := matched[r.On]; dup {
				wrong = append(wrong, fmt.Errorf("%s: rows %d and %d both match %v while %v", t.Name, other, n, r.On, s))
			}
			matched[r.On] = n
			matches[n]++
			if reachable[s] {
				lives[n]++
			}
		}
	}
	for n, r := range t.Rows {
		switch {
		case matches[n] == 0:
			wrong = append(wrong, fmt.Errorf("%s: row %d (%v) matches no state", t.Name, n, r.On))
		case lives[n] == 0:
			wrong = append(wrong, fmt.Errorf("%s: row %d (%v) matches no state that can be reached", t.Name, n, r.On))
		}
	}
	return wrong
}

// Rows returns what is wrong with the rows of the machine's table, and with the numbers of its
// states.
func (m *Machine[S, E, O, M]) Rows() (wrong []error) {
	for i, s := range All(m.Table) {
		if n := m.Number(s); n != i {
			wrong = append(wrong, fmt.Errorf("%s: %v has the number %d, expected %d", m.Table.Name, s, n, i))
		}
	}
	return append(wrong, Rows(m.Table, m.Reachable())...)
}
