package cache

import (
	"slices"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// A glob collection is a structured name that stands for all resources one level below it (G6). It
// works like an alias that each of them has: subscribers of the glob see them. Tables without
// structured names are not affected.

// noteGlobLocked follows the change of e from old in the glob that covers it. Subscribers of a glob are
// notified when it has become empty (G7).
func (t *Table) noteGlobLocked(e *table.Entry, old *resource.Resource, first uint64, woken map[*Subscription]struct{}) {
	g := e.Glob()
	switch {
	case g == nil || (old == nil) == (e.Res == nil) || t.interests[g.Name] == nil:
	case old == nil:
		if w := t.interests[g.Name]; t.hasAnswered(w) {
			t.closeLocked(w, g.Name)
		}
	case g.Live() == 0:
		t.store.Next()
		t.setLocked(g.Name, table.State{}, first, woken)
	}
}

// closeLocked records that name needs no answer any more.
func (t *Table) closeLocked(w *interest, name string) {
	if w.stream != Nobody {
		delete(t.streams[w.stream].unanswered, name)
	}
}

// answerGlobLocked records that the control plane has nothing more to send about a glob whose
// members were known before it was asked for.
func (t *Table) answerGlobLocked(name string, woken map[*Subscription]struct{}) {
	w := t.interests[name]
	if w == nil || !t.isGlobLocked(name) || !t.openLocked(w, name) {
		return
	}
	w.seq = min(w.seq, t.streams[w.stream].answered)
	t.closeLocked(w, name)
	for s := range w.subs.all() {
		woken[s] = struct{}{}
	}
}

// openLocked reports whether the interest w in name waits for an answer.
func (t *Table) openLocked(w *interest, name string) bool {
	if w.stream == Nobody {
		return false
	}
	stream := &t.streams[w.stream]
	if _, listed := stream.unanswered[name]; !listed || w.seq > stream.answered {
		return listed
	}
	// An answer for other names is none for a glob of which nothing has arrived.
	g := t.store.Glob(name)
	return g != nil && g.Live() == 0
}

// forgetAnswered removes the names that have been answered from the unanswered ones of a stream, in
// steps: if very many are answered at once, they stay in the list until then. t.mu must not be
// held.
func (t *Table) forgetAnswered(by int) {
	stream := &t.streams[by]
	for n, w := range inSteps(t, &t.mu, &stream.unanswered) {
		if !t.openLocked(w, n) {
			delete(stream.unanswered, n)
		}
	}
	t.mu.Lock()
	stream.outdated = false
	stream.unanswered = fittedLocked(t, stream.unanswered)
	t.moved++
	t.mu.Unlock()
	t.group.signalNeeds()
}

// globWantedLocked reports whether there is interest in the glob that covers the canonical name.
func (t *Table) globWantedLocked(name string) bool {
	if !t.store.HasGlobs() {
		return false // a glob with interest is known
	}
	if e := t.store.Get(name); e != nil {
		g := e.Glob()
		return g != nil && t.interests[g.Name] != nil
	}
	g := resource.GlobOf(name)
	return g != "" && t.interests[g] != nil
}

// isGlobLocked reports whether a name is that of a glob with present or past interest.
func (t *Table) isGlobLocked(name string) bool { return t.store.Glob(name) != nil }

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

// eachGlobLocked calls f for the globs that s asks for.
func (t *Table) eachGlobLocked(s *Subscription, f func(*table.Glob)) {
	if s.globs > 0 {
		t.store.EachGlob(s.names, f)
	}
}
