package cache

import "maps"

// Names that nobody wants any more stay subscribed for the linger time (K10), as far as
// their bytes are within a bound.

// forgetUnservedLocked ends the demand for names of which there is nothing, in a key that
// has no clients: a returning client asks for them again, and somebody may have made them
// up. The demand for others stays, so that their content does, but lingers no more.
func (t *Table) forgetUnservedLocked() {
	var ended []string
	for name, w := range t.wants {
		t.unbookLocked(w, name)
		if served := false; w.subs.len() == 0 {
			t.eachOfLocked(name, func(e *entry) { served = served || e.res != nil })
			if !served {
				t.endWantLocked(w, name)
				ended = append(ended, name)
			}
		}
	}
	t.dropEndedLocked(ended, make(map[*Subscription]struct{})) // nobody subscribes
	t.tidyWantsLocked(ended)
	if len(ended) > spacious {
		t.shrinkLocked()
	}
	for i := range t.legs { // its next stream asks for all that is wanted
		leg := &t.legs[i]
		for _, name := range ended {
			delete(leg.dirty, name)
		}
		if len(ended) > spacious {
			leg.dirty = maps.Clone(leg.dirty)
		}
	}
}

// endWantLocked ends the demand for a name that nobody wants.
func (t *Table) endWantLocked(w *want, name string) {
	t.unbookLocked(w, name)
	delete(t.wants, name)
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

// dropEndedLocked drops what nobody sees any more, now that names are not wanted.
func (t *Table) dropEndedLocked(ended []string, woken map[*Subscription]struct{}) {
	for _, name := range ended {
		t.eachOfLocked(name, func(e *entry) { t.dropUnwantedLocked(e, woken) })
	}
}

// tidyWantsLocked gives back what else was kept for names that are not wanted any more.
func (t *Table) tidyWantsLocked(ended []string) {
	for _, name := range ended {
		if g := t.globs[name]; g != nil {
			t.dropGlobLocked(g)
		}
	}
	t.forgetUnwantedLocked()
}
