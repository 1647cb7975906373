package table

import (
	"iter"
	"maps"
)

// A store may have hundreds of thousands of entries, and a scan of all of them takes many
// milliseconds. So the longer ones pause every few entries, and others may change the store
// meanwhile. Such a scan may miss what is added or removed during it.

// Entries iterates over all entries in no order.
func (s *Store) Entries() iter.Seq2[string, *Entry] {
	s.guard.Reading()
	return maps.All(s.entries)
}

// Scan iterates over all entries in no order, and calls pause after every step of them. An entry
// that is there all the time is yielded exactly once, even if others are added or removed
// meanwhile; a removed one is not.
func (s *Store) Scan(step int, pause func()) iter.Seq2[string, *Entry] {
	return func(yield func(string, *Entry) bool) {
		s.guard.Reading()
		moved, n := s.moved, 0
		for name, e := range s.entries {
			there := true
			if moved != s.moved { // a copy has replaced the map; see Fit
				e, there = s.entries[name]
			}
			if there && !yield(name, e) {
				return
			}
			if n++; n%step == 0 {
				pause()
			}
		}
	}
}

// Fit frees the room of entries that have been removed: maps do not shrink by themselves, and a copy
// of a map by package maps is as large. It makes a copy, and calls pause after every step entries.
// Only one Fit runs at a time.
func (s *Store) Fit(step int, pause func()) {
	s.guard.Writing()
	s.fitted = make(map[string]*Entry)
	maps.Insert(s.fitted, s.Scan(step, pause))
	s.entries, s.fitted = s.fitted, nil
	s.moved++
}
