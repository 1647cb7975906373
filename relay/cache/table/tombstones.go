package table

// tombstonesAtOnce bounds the tombstones that each new one makes Reap examine. It is more than one,
// so that their number decreases again when it is too high.
const tombstonesAtOnce = 4

// AddTombstone makes an entry that was put without a resource a tombstone.
func (s *Store) AddTombstone(e *Entry) {
	s.guard.Writing()
	s.tombstones.Push(e)
}

// Reap bounds the tombstones, and calls forgotten with the names of those that it forgets.
// Tombstones of names with interest stay as long as the interest (D5): the control plane reports an
// absent name only once. Tombstones of resources that the control plane refuses to show stay as
// well: clients may hold them, and must be notified of the removal (K8). Of the rest, as many stay
// as there are resources, or least. interests is the number of names with interest.
func (s *Store) Reap(least, interests int, forgotten func(name string)) {
	s.guard.Writing()
	limit := max(least, s.live) + interests + len(s.uncacheable)
	for i := range s.sums {
		limit += s.sums[i].Denied
	}
	for range tombstonesAtOnce {
		e := s.tombstones.Oldest()
		switch {
		case s.tombstones.Len() <= limit:
			return
		case s.wanted(e.Name) || e.Denied || s.uncacheable[e.Name] == e.Name:
			s.tombstones.Remove(e)
			s.tombstones.Push(e)
			continue
		}
		s.Expire(e)
		forgotten(e.Name)
	}
}

// Expire forgets a tombstone that some clients may not have been notified of, and raises the
// floors.
func (s *Store) Expire(e *Entry) {
	s.guard.Writing()
	if len(e.Former()) > 0 {
		s.aliasFloor = max(s.aliasFloor, e.Gen)
	}
	if g := e.Glob(); g != nil {
		g.floor = max(g.floor, e.Named)
	}
	s.floor = max(s.floor, e.Wild)
	s.Forget(e)
}

// Forget forgets e completely, without a change that clients can see.
func (s *Store) Forget(e *Entry) {
	s.ClearUncacheable(e.Name)
	s.Empty(e)
	s.SetCopies(e, State{})
	s.tombstones.Remove(e)
	s.unindex(e, e.Former())
	s.unindexGlob(e)
	s.keepLast(e, nil, nil)
	s.changes.Remove(e)
	s.bytes -= entrySize(e.Name)
	delete(s.entries, e.Name)
	delete(s.fitted, e.Name)
}

// Empty makes e a tombstone, without a change that clients can see.
func (s *Store) Empty(e *Entry) {
	s.guard.Writing()
	if e.Res == nil {
		return
	}
	for _, h := range e.Copies() {
		s.sums[h.Stream].count(h.Res, nil)
	}
	s.joinWildcard(e, e.Res, e.Member, &State{})
	s.unindex(e, e.Res.Aliases)
	if g := e.Glob(); g != nil {
		g.live--
	}
	s.live--
	s.bytes -= int64(e.Res.Size())
	s.SetCopies(e, State{})
	s.tombstones.Push(e)
}
