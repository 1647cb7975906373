package cache

import "slices"

// Names that nobody wants any more stay subscribed for the linger time (K10), as far as
// their bytes are within a bound.

// forgetUnserved ends the demand for names of which there is nothing, in a key that has no
// clients: a returning client asks for them again, and somebody may have made them up. The
// demand for others stays, so that their content does, but lingers no more. There may be
// hundreds of thousands of names, so it is done in steps. Each is made by still, which makes
// it only as long as the key has neither clients nor streams. t.mu must not be held.
func (t *Table) forgetUnserved(still func(step func()) bool) {
	names := t.namesThat(func(*want) bool { return true })
	for some := range slices.Chunk(names, t.group.cache.step) {
		if !still(func() { t.forgetUnservedOf(some) }) {
			return
		}
	}
	t.tidy()
}

// forgetUnservedOf is a step of forgetUnserved.
func (t *Table) forgetUnservedOf(names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ended []string
	for _, name := range names {
		w := t.wants[name]
		if w == nil {
			continue
		}
		t.unbookLocked(w, name)
		if served := false; w.subs.len() == 0 {
			t.eachOfLocked(name, func(e *entry) { served = served || e.res != nil })
			if !served {
				ended = append(ended, name)
			}
		}
	}
	t.endWantsLocked(ended, make(map[*Subscription]struct{})) // nobody subscribes
	for i := range t.legs {                                   // its next stream asks for all that is wanted
		for _, name := range ended {
			delete(t.legs[i].dirty, name)
		}
	}
}

// endWantLocked ends the demand for a name that nobody wants.
func (t *Table) endWantLocked(w *want, name string) {
	t.unbookLocked(w, name)
	delete(t.wants, name)
	delete(t.nextWants, name)
	if !w.expires.IsZero() {
		t.lingering--
	}
	t.bytes -= wantSize(name)
	t.stopAskingLocked(w, name)
	if w.shed {
		t.shed--
	}
}

// unbookLocked notes that a name lingers no more.
func (t *Table) unbookLocked(w *want, name string) {
	if w.booked {
		w.booked = false
		t.group.lingering.Add(-wantSize(name))
		t.group.cache.lingering.Add(-wantSize(name))
	}
}

// mayLinger books bytes of a name that nobody wants any more, and reports whether it may
// stay subscribed: a key gets at most a quarter of what is free for that in all keys.
func (g *Group) mayLinger(bytes int64) bool {
	own, all := g.lingering.Add(bytes), g.cache.lingering.Add(bytes)
	if own <= (g.cache.cfg.LingeringBytes-all+own)/4 {
		return true
	}
	g.lingering.Add(-bytes)
	g.cache.lingering.Add(-bytes)
	return false
}
