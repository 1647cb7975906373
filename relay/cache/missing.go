package cache

import "xdsrelay/relay/resource"

// Missing returns how many of the names that s asks for have no resource: the control
// plane has none, or has not answered yet. Globs do not count, since a collection may be
// empty. It costs the same for any number of names, unless s has globs or the wildcard,
// or the table has aliases.
func (s *Subscription) Missing() int {
	t := s.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	if s.hasPlainNamesLocked() {
		return len(s.names) - s.live
	}
	return s.missingLocked()
}

// hasPlainNamesLocked reports whether each resource that s sees is there for just one of
// its names.
func (s *Subscription) hasPlainNamesLocked() bool {
	return !s.key.wildcard && s.globs == 0 && len(s.table.aliases) == 0
}

func (s *Subscription) missingLocked() (n int) {
	for name := range s.names {
		if !resource.IsGlob(name) && !s.table.existsLocked(name) {
			n++
		}
	}
	return n
}
