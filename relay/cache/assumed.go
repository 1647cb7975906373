package cache

import "xdsrelay/relay/resource"

// A control plane that has said nothing of a type for as long as clients wait may have nothing
// of it, or the stream to it is dead without a notice. Clients that wait are told that there is
// nothing (C12, D5), but nobody knows it. So such names are assumed absent until the origin
// answers for the type: that takes nothing from a client that comes with one (K14), other
// nodes do not take it for an answer, and it ends with the stream.

// assumeLocked notes that names, of which nothing is known, count as absent.
func (t *Table) assumeLocked(by int, names []string) {
	leg := &t.legs[by]
	if len(names) > 0 && leg.assumed == nil {
		leg.assumed = make(map[string]struct{})
	}
	for _, n := range names {
		leg.assumed[resource.Canonical(n)] = struct{}{}
	}
}

// isAssumedLocked reports whether a canonical name, which is wanted, counts as absent without
// an answer.
func (t *Table) isAssumedLocked(name string) bool {
	w := t.wants[name]
	if w == nil || w.leg == Nobody {
		return false
	}
	_, is := t.legs[w.leg].assumed[name]
	return is
}

// Assumes reports whether any of what w asks for counts as absent without an answer.
func (t *Table) Assumes(w *Watcher) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return w.sub != nil && t.assumesLocked(w.sub)
}

func (t *Table) assumesLocked(s *Subscription) bool {
	for i := range t.legs {
		assumed := t.legs[i].assumed
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
		n := len(t.legs[by].assumed)
		t.mu.RUnlock()
		if n == 0 {
			continue
		}
		for name := range inSteps(t, &t.mu, &t.legs[by].assumed) {
			t.reopenLocked(by, name)
		}
	}
}

// reopenLocked forgets that a name was assumed absent. Clients that were told so still have
// nothing.
func (t *Table) reopenLocked(by int, name string) {
	leg := &t.legs[by]
	if _, is := leg.assumed[name]; !is {
		return // there was an answer meanwhile
	}
	delete(leg.assumed, name)
	e := t.entries[name]
	if e == nil || e.res != nil || e.denied {
		return
	}
	t.eraseLocked(e)
	w := t.wants[name]
	if w == nil || w.leg != by || t.failedLocked(name) {
		return
	}
	if w.seq > leg.answered || t.isGlobLocked(name) {
		leg.unanswered[name] = w
	}
}
