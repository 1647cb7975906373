package cache

import "xdsrelay/relay/resource"

// errUnreachable is the error for names whose control plane cannot be asked.
const errUnreachable = "the relay cannot reach the origin of this resource"

// GiveUp sends an error to all subscribers of those names of w of which nothing is known and whose
// control plane cannot be reached: once until it is back (K15). The cost is proportional to the
// number of names.
func (t *Table) GiveUp(w *Watcher) {
	woken := make(map[*Subscription]struct{})
	t.mu.RLock()
	s := w.sub
	t.mu.RUnlock()
	if s == nil {
		return
	}
	for name := range inSteps(t, &t.mu, &s.names) {
		if t.mustGiveUpLocked(name) {
			r := newResourceError(resource.NewError(t.askedAsLocked(name), resource.CodeUnavailable, errUnreachable), t.demand.Get(name).Stream())
			r.local = true
			t.noteErrorLocked(r, woken)
		}
	}
	t.group.cache.wake(woken)
}

// mustGiveUpLocked reports whether nothing is known of name, no error was sent yet, and its control
// plane is unreachable.
func (t *Table) mustGiveUpLocked(name string) bool {
	w := t.demand.Get(name)
	if w == nil || w.Stream() == Nobody || t.store.Knows(name) {
		return false
	}
	for _, r := range t.resourceErrors[name] {
		if !r.removal && r.about.Variant == "" {
			return false
		}
	}
	return t.group.unreachable(1 << w.Stream())
}

// forgetLocalErrors forgets the errors of GiveUp about the names of a stream: the next outage is
// another one.
func (g *Group) forgetLocalErrors(stream int) {
	for _, t := range g.Tables() {
		t.mu.RLock()
		none := t.localErrors == 0
		t.mu.RUnlock()
		if none {
			continue
		}
		for _, all := range inSteps(t, &t.mu, &t.resourceErrors) {
			for _, r := range all { // a copy remains where some are dropped
				if r.local && r.stream == stream {
					t.dropErrorLocked(r)
				}
			}
		}
	}
}
