package cache

import "xdsrelay/relay/resource"

// Head is the newest state of a table as one subscription sees it.
type Head struct {
	// Subscription identifies its content in this process; 0: none.
	Subscription uint64
	// Names says how many names it has, and how many of these are globs;
	// Wildcard whether it has "*" too.
	Names, Globs int
	Wildcard     bool
	// Gen is the newest generation that it may see; never too small.
	Gen uint64
	// Known says that the origin has answered for all of it (K13).
	Known bool
	// Hopeless says that an origin that has not answered is out of reach, so
	// that its answer may not come soon.
	Hopeless bool
	// Held says that nothing should be told yet: the key was idle, its state
	// may be old, and the origin is being asked. The watcher is woken when
	// that is over.
	Held bool
}

// Head tells where w's subscription stands. It costs the same whatever the
// table's size.
func (t *Table) Head(w *Watcher) Head {
	t.mu.RLock()
	s := w.sub
	if s == nil {
		t.mu.RUnlock()
		return Head{}
	}
	h := Head{
		Subscription: s.id, Names: len(s.names), Globs: s.globs, Wildcard: s.key.wildcard,
		Gen: s.gen, Known: t.knownLocked(s), Held: t.heldLocked(s),
	}
	if h.Known {
		t.mu.RUnlock()
		return h
	}
	legs := t.waitsForLocked(s)
	t.mu.RUnlock()
	h.Hopeless = t.group.unreachable(legs)
	return h
}

// heldLocked reports whether a leg that s may depend on is held.
func (t *Table) heldLocked(*Subscription) bool {
	for i := range t.legs {
		if t.legs[i].held {
			return true
		}
	}
	return false
}

// Reconcile compares what a client says it holds with what it should see
// (B37). It returns the names that it has to be told, since they changed, are
// new to it, or are gone; the position from which it then follows; and the
// claims about names of which nothing is known yet, in canonical form.
func (t *Table) Reconcile(w *Watcher, claims []resource.Held) (tell *Names, at Position, rest []resource.Held) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := w.sub
	if s == nil {
		return nil, Start, claims
	}
	names := []string{}
	claimed := make(map[*entry]struct{}, len(claims))
	for _, c := range claims {
		c.Name = resource.Canonical(c.Name)
		e := t.entries[c.Name] // not an alias: a client holds resources by their names
		_, named := s.names[c.Name]
		switch {
		case e == nil && (named || s.key.wildcard && !t.wildKnownLocked() || t.opensLocked(s, c.Name)):
			rest = append(rest, c)
			continue
		case e != nil && e.res != nil && s.seesLocked(e) && e.res.Version == c.Version:
		default:
			names = append(names, c.Name)
		}
		if e != nil {
			claimed[e] = struct{}{}
		}
	}
	see := func(e *entry) {
		if _, ok := claimed[e]; !ok && (e.res != nil && s.seesLocked(e) || t.missesLocked(s, e)) { // B34
			names = append(names, e.name)
		}
	}
	if s.key.wildcard {
		for _, e := range t.entries {
			see(e)
		}
	} else {
		t.eachNamedLocked(s, see)
	}
	return NewNames(names), Position{s.gen, s.gen}, rest
}

// Gone returns those of claims that turned out not to exist: the origin has
// answered, and there is no such resource.
func (t *Table) Gone(w *Watcher, claims []resource.Held) *Names {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var gone []string
	for _, c := range claims {
		e := t.entries[c.Name]
		if s := w.sub; s != nil && e == nil && (s.key.wildcard || t.coversLocked(s, c.Name)) {
			gone = append(gone, c.Name)
		}
	}
	return NewNames(gone)
}

// coversLocked reports whether s wants the glob that covers the canonical name.
func (t *Table) coversLocked(s *Subscription, name string) bool {
	if s.globs == 0 {
		return false
	}
	_, ok := s.names[resource.GlobOf(name)]
	return ok
}

// opensLocked is coversLocked while that glob waits for an answer.
func (t *Table) opensLocked(s *Subscription, name string) bool {
	if !t.coversLocked(s, name) {
		return false
	}
	g := resource.GlobOf(name)
	return t.openLocked(t.wants[g], g)
}

// Reaches reports whether the table has come to generation gen.
func (t *Table) Reaches(gen uint64) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return gen <= t.gen
}
