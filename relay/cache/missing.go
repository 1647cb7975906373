package cache

import "xdsrelay/relay/resource"

// Missing returns how many of the names that s asks for have no resource: the control plane has
// none, or has not answered yet. Globs do not count, because a collection may be empty. The cost
// does not depend on the number of names, unless s has globs or the wildcard, or the table has
// aliases.
func (s *Subscription) Missing() int {
	t := s.table
	t.mu.RLock()
	plain, missing := s.hasPlainNames(), len(s.names)-s.live
	t.mu.RUnlock()
	if plain {
		return missing
	}
	return s.countMissing()
}

// hasPlainNames reports whether s sees each resource by exactly one of its names.
func (s *Subscription) hasPlainNames() bool {
	return !s.key.wildcard && s.globs == 0 && !s.table.core.store.Aliased()
}

// countMissing is Missing by a scan of the names. The table's mu must not be held.
func (s *Subscription) countMissing() (n int) {
	t := s.table
	for name := range inSteps(t, t.mu.reading(), &s.names) {
		if t.core.missesName(name) {
			n++
		}
	}
	return n
}

func (t *core) missesName(name string) bool {
	return !resource.IsGlob(name) && !t.store.Exists(name)
}
