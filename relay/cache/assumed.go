package cache

import "xdsrelay/relay/resource"

// A control plane that has sent nothing of a type for as long as clients wait may have nothing of
// it, or its stream may have stalled. Clients that wait are sent that the names do not exist (C12,
// D5), which is an assumption. It lasts until the control plane answers for the type, or until the
// stream ends. Meanwhile it removes nothing from a client that returns with such a name (K14), and
// other nodes do not get it as an answer.

// assumeLocked records that unknown names count as absent. t.mu must be held.
func (t *Table) assumeLocked(by int, names []string) {
	stream := &t.streams[by]
	if len(names) > 0 && stream.assumed == nil {
		stream.assumed = make(map[string]struct{})
	}
	for _, n := range names {
		stream.assumed[resource.Canonical(n)] = struct{}{}
	}
}

// isAssumedLocked reports whether a canonical name, which is wanted, counts as absent without
// an answer.
func (t *Table) isAssumedLocked(name string) bool {
	w := t.demand.Get(name)
	if w == nil || w.Stream() == Nobody {
		return false
	}
	_, is := t.streams[w.Stream()].assumed[name]
	return is
}

// Assumes reports whether any of what w asks for counts as absent without an answer.
func (t *Table) Assumes(w *Watcher) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return w.sub != nil && t.assumesLocked(w.sub)
}

func (t *Table) assumesLocked(s *Subscription) bool {
	for i := range t.streams {
		assumed := t.streams[i].assumed
		if len(assumed) < len(s.names) {
			for n := range assumed {
				if _, named := s.names[n]; named {
					return true
				}
			}
			continue
		}
		if len(assumed) == 0 {
			continue
		}
		for n := range s.names {
			if _, is := assumed[n]; is {
				return true
			}
		}
	}
	return false
}

// forgetAssumed makes what was assumed on the stream of a leg unknown again: that stream is over.
func (g *Group) forgetAssumed(by int) {
	for _, t := range g.Tables() {
		t.mu.RLock()
		n := len(t.streams[by].assumed)
		t.mu.RUnlock()
		if n == 0 {
			continue
		}
		for name := range inSteps(t, &t.mu, &t.streams[by].assumed) {
			t.reopenLocked(by, name)
		}
	}
}

// reopenLocked ends the assumption that a name is absent. Nothing changes for clients that were sent
// it. t.mu must be held.
func (t *Table) reopenLocked(by int, name string) {
	stream := &t.streams[by]
	if _, is := stream.assumed[name]; !is {
		return // there was an answer meanwhile
	}
	delete(stream.assumed, name)
	e := t.store.Get(name)
	if e == nil || e.Res != nil || e.Denied {
		return
	}
	t.forgetEntryLocked(e)
	w := t.demand.Get(name)
	if w == nil || w.Stream() != by || t.failedLocked(name) {
		return
	}
	if !t.demand.Answered(w) || t.isGlobLocked(name) {
		t.demand.Reopen(w, name)
	}
}
