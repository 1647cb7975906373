package cache

import (
	"slices"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// A glob collection is a structured name that stands for all resources one level below it (G6). It
// works like an alias that each of them has: subscribers of the glob see them. Tables without
// structured names are not affected.

// noteGlob follows the change of e from old in the glob that covers it. Subscribers of a glob are
// notified when it has become empty (G7).
func (t *core) noteGlob(e *table.Entry, old *resource.Resource, first uint64, woken map[*Subscription]struct{}) {
	g := e.Glob()
	switch {
	case g == nil || (old == nil) == (e.Res == nil) || t.demand.Get(g.Name) == nil:
	case old == nil:
		if w := t.demand.Get(g.Name); t.demand.Answered(w) {
			t.demand.Close(w, g.Name)
		}
	case g.Live() == 0:
		t.store.Next()
		t.set(g.Name, table.State{}, first, woken)
	}
}

// answerGlob records that the control plane has nothing more to send about a glob whose
// members were known before it was asked for.
func (t *core) answerGlob(name string, woken map[*Subscription]struct{}) {
	w := t.demand.Get(name)
	if w == nil || !t.isGlob(name) || !t.demand.Open(w, name) {
		return
	}
	t.demand.Presume(w)
	t.demand.Close(w, name)
	for s := range w.Subscribers().All() {
		woken[s] = struct{}{}
	}
}

// forgetAnswered removes the names that have been answered from the unanswered ones of a stream, in
// steps: if very many are answered at once, they stay in the list until then. t.mu must not be
// held.
func (t *Table) forgetAnswered(by int) {
	t.core.inPauses(&t.mu, func(step int, pause func()) { t.core.demand.ForgetAnswered(by, step, pause) })
	t.group.signalNeeds()
}

// globWanted reports whether there is interest in the glob that covers the canonical name.
func (t *core) globWanted(name string) bool {
	if !t.store.HasGlobs() {
		return false // a glob with interest is known
	}
	if e := t.store.Get(name); e != nil {
		g := e.Glob()
		return g != nil && t.demand.Get(g.Name) != nil
	}
	g := resource.GlobOf(name)
	return g != "" && t.demand.Get(g) != nil
}

// isGlob reports whether a name is that of a glob with present or past interest.
func (t *core) isGlob(name string) bool { return t.store.Glob(name) != nil }

// changesGlobs reports whether a glob was joined or left.
func (done *Edited) changesGlobs() bool {
	return slices.ContainsFunc(done.Added, resource.IsGlob) || slices.ContainsFunc(done.Removed, resource.IsGlob)
}

// countGlobs updates s.globs after a change of its names.
func (s *Subscription) countGlobs(done *Edited) {
	for _, n := range done.Added {
		if resource.IsGlob(n) {
			s.globs++
		}
	}
	for _, n := range done.Removed {
		if resource.IsGlob(n) {
			s.globs--
		}
	}
}

// eachGlob calls f for the globs that s asks for.
func (t *core) eachGlob(s *Subscription, f func(*table.Glob)) {
	if s.globs > 0 {
		t.store.EachGlob(s.names, f)
	}
}
