package cache

import (
	"xdsrelay/relay/cache/notes"
	"xdsrelay/relay/resource"
)

// errUnreachable is the error for names whose control plane cannot be asked.
const errUnreachable = "the relay cannot reach the control plane of this resource"

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
		if t.core.mustGiveUp(name) {
			about := resource.NewError(t.core.askedAs(name), resource.CodeUnavailable, errUnreachable)
			t.core.noteError(notes.NewProblem(about, t.core.demand.Get(name).Stream(), notes.OwnError), woken)
		}
	}
	t.group.cache.wake(woken)
}

// mustGiveUp reports whether nothing is known of name, no error was sent yet, and its control
// plane is unreachable.
func (t *core) mustGiveUp(name string) bool {
	w := t.demand.Get(name)
	if w == nil || w.Stream() == Nobody || t.store.Knows(name) {
		return false
	}
	for _, r := range t.notes.Of(name) {
		if r.IsError() && r.About.Variant == "" {
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
		none := t.core.notes.Own() == 0
		t.mu.RUnlock()
		if !none {
			t.dropProblems(func(r *notes.Problem) bool { return r.Kind == notes.OwnError && r.Stream == stream })
		}
	}
}
