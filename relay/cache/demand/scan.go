package demand

import (
	"iter"
	"maps"
)

// There may be hundreds of thousands of names, and a scan of all of them takes many milliseconds. So
// the longer ones pause every few names, and others may change the demand meanwhile. Such a scan may
// miss what is added or removed during it.

// Scan iterates over the names with interest in no order, and calls pause after every step of them.
// A name that has interest all the time is yielded exactly once, even if others begin or end
// meanwhile; one whose interest has ended is not.
func (d *Demand[S]) Scan(step int, pause func()) iter.Seq2[string, *Interest[S]] {
	d.guard.Reading()
	return scan(&d.moved, &d.interests, step, pause)
}

// scan iterates over a map, and calls pause after every step elements. moved is counted up when a
// copy replaces the map.
func scan[V any](moved *uint64, m *map[string]V, step int, pause func()) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		before, n := *moved, 0
		for name, v := range *m {
			there := true
			if before != *moved {
				v, there = (*m)[name]
			}
			if there && !yield(name, v) {
				return
			}
			if n++; n%step == 0 {
				pause()
			}
		}
	}
}

// Fit frees the room of interests that have ended: maps do not shrink by themselves, and a copy of a
// map by package maps is as large. It makes a copy, and calls pause after every step names. Only one
// Fit runs at a time.
func (d *Demand[S]) Fit(step int, pause func()) {
	d.guard.Writing()
	d.fitted = make(map[string]*Interest[S])
	maps.Insert(d.fitted, d.Scan(step, pause))
	d.interests, d.fitted = d.fitted, nil
	d.moved++
	for i := range d.streams {
		s := &d.streams[i]
		s.unanswered, s.changes = fitted(s.unanswered, step), fitted(s.changes, step)
	}
}

// fitted returns a copy of m without spare room, or m itself if copying takes long.
func fitted[V any](m map[string]V, step int) map[string]V {
	if len(m) > 16*step {
		return m
	}
	fitted := make(map[string]V, len(m))
	maps.Copy(fitted, m)
	return fitted
}

// Spacious is how many names may be missing from a map before a copy replaces it: maps do not shrink
// by themselves, and clearing one costs as much as it ever held.
const Spacious = 1024

// roomy is the same for the map of changes, which is usually empty after they were taken: a key may
// have few names, and there may be many keys.
const roomy = 16
