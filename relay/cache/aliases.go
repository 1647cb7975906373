package cache

import "xdsrelay/relay/cache/table"

// A resource may have other names besides its own (B38). The index of aliases finds entries by
// their present and former names.

// eachNamed calls f once for each entry that has one of the names of s, or had one.
func (t *core) eachNamed(s *Subscription, f func(*table.Entry)) {
	t.store.EachNamed(s.names, s.globs > 0, f)
}

// eachNamed calls f in steps, with the table's mu held for reading, for each entry that has one of
// the names of s, or had one: once unless aliases change meanwhile.
func (s *Subscription) eachNamed(f func(*table.Entry)) {
	t, seen := s.table, make(map[*table.Entry]struct{})
	for n := range inSteps(t, t.mu.reading(), &s.names) {
		many := t.core.store.Aliased() || s.globs > 0
		t.core.store.EachOf(n, func(e *table.Entry) {
			if _, twice := seen[e]; twice {
				return
			}
			if many {
				seen[e] = struct{}{}
			}
			f(e)
		})
	}
}
