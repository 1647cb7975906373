package cache

// A control plane that has sent nothing of a type for as long as clients wait may have nothing of
// it, or its stream may have stalled. Clients that wait are sent that the names do not exist (C12,
// D5), which is an assumption. It lasts until the control plane answers for the type, or until the
// stream ends. Meanwhile it removes nothing from a client that returns with such a name (K14), and
// other nodes do not get it as an answer.

// isAssumed reports whether a canonical name, which is wanted, counts as absent without
// an answer.
func (t *core) isAssumed(name string) bool {
	w := t.demand.Get(name)
	return w != nil && w.Stream() != Nobody && t.streams[w.Stream()].names.IsAssumed(name)
}

// Assumes reports whether any of what w asks for counts as absent without an answer.
func (t *Table) Assumes(w *Watcher) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return w.sub != nil && t.core.assumes(w.sub)
}

func (t *core) assumes(s *Subscription) bool {
	for i := range t.streams {
		if t.streams[i].names.AssumesAny(s.names) {
			return true
		}
	}
	return false
}

// forgetAssumed makes what was assumed on the stream of a leg unknown again: that stream is over.
func (g *Group) forgetAssumed(by int) {
	for _, t := range g.Tables() {
		t.mu.RLock()
		n := t.core.streams[by].names.Assumed()
		t.mu.RUnlock()
		if n == 0 {
			continue
		}
		t.core.inPauses(&t.mu, func(step int, pause func()) {
			for name := range t.core.streams[by].names.ScanAssumed(step, pause) {
				t.core.reopen(by, name)
			}
		})
	}
}

// reopen ends the assumption that a name is absent. Nothing changes for clients that were sent
// it.
func (t *core) reopen(by int, name string) {
	if !t.streams[by].names.Answer(name) {
		return // there was an answer meanwhile
	}
	e := t.store.Get(name)
	if e == nil || e.Res != nil || e.Denied {
		return
	}
	t.forgetEntry(e)
	w := t.demand.Get(name)
	if w == nil || w.Stream() != by || t.failed(name) {
		return
	}
	if t.demand.Answered(w) && !t.isGlob(name) { // by another node, to which the stream led before
		t.demand.Doubt(w)
	}
	t.demand.Reopen(w, name)
}
