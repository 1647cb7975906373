package cache

import (
	"slices"

	"xdsrelay/relay/resource"
)

// A glob collection is a structured name that stands for all resources one level below it (G6). It
// works like an alias that each of them has: subscribers of the glob see them. Tables without
// structured names are not affected.

// structure is the extra state of an entry with a structured name.
type structure struct {
	glob *glob // that covers the name; nil for globs themselves
	// spelled is how the control plane spells the resource, "" if it never did.
	spelled string
	place   link[entry]
}

// glob is all that is known below one level.
type glob struct {
	name    string
	members list[entry] // tombstones included
	live    int         // of these, resources
	floor   uint64      // tombstones up to here may be gone
}

func memberLink(e *entry) *link[entry] { return &e.urn.place }

// globOf is the glob that covers e, nil if none does.
func (e *entry) globOf() *glob {
	if e.urn == nil {
		return nil
	}
	return e.urn.glob
}

// globLocked returns the glob with that name, which is made on first use.
func (t *Table) globLocked(name string) *glob {
	g := t.globs[name]
	if g == nil {
		g = &glob{name: name, members: list[entry]{at: memberLink}}
		if t.globs == nil {
			t.globs = make(map[string]*glob)
		}
		t.globs[name] = g
	}
	return g
}

// indexGlobLocked completes a new entry with a structured name.
func (t *Table) indexGlobLocked(e *entry) {
	if !resource.IsURN(e.name) {
		return
	}
	e.urn = &structure{}
	if name := resource.GlobOf(e.name); name != "" {
		e.urn.glob = t.globLocked(name)
		e.urn.glob.members.push(e)
	}
}

// unindexGlobLocked removes e from its glob. e is a tombstone that is being erased.
func (t *Table) unindexGlobLocked(e *entry) {
	g := e.globOf()
	if g == nil {
		return
	}
	g.members.remove(e)
	t.dropGlobLocked(g)
}

// dropGlobLocked forgets g if there is nothing to know about it.
func (t *Table) dropGlobLocked(g *glob) {
	if g.members.len == 0 && t.interests[g.name] == nil {
		delete(t.globs, g.name)
	}
}

// countLocked counts the change of e from old in its glob. Subscribers of a glob are notified when
// it has become empty (G7).
func (t *Table) countLocked(e *entry, old *resource.Resource, first uint64, woken map[*Subscription]struct{}) {
	g := e.globOf()
	switch {
	case g == nil || (old == nil) == (e.res == nil):
	case old == nil:
		g.live++
		if w := t.interests[g.name]; w != nil && t.hasAnswered(w) {
			t.closeLocked(w, g.name)
		}
	default:
		g.live--
		if g.live == 0 && t.interests[g.name] != nil {
			t.gen++
			t.setLocked(g.name, state{}, first, woken)
		}
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
	g := t.globs[name]
	return g != nil && g.live == 0
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
	if len(t.globs) == 0 {
		return false // a glob with interest is in t.globs
	}
	if e := t.entries[name]; e != nil {
		g := e.globOf()
		return g != nil && t.interests[g.name] != nil
	}
	g := resource.GlobOf(name)
	return g != "" && t.interests[g] != nil
}

// isGlobLocked reports whether a name is that of a glob with present or past interest.
func (t *Table) isGlobLocked(name string) bool { return t.globs[name] != nil }

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
func (t *Table) eachGlobLocked(s *Subscription, f func(*glob)) {
	switch {
	case s.globs == 0:
	case len(t.globs) < len(s.names):
		for n, g := range t.globs {
			if _, ok := s.names[n]; ok {
				f(g)
			}
		}
	default:
		for n := range s.names {
			if g := t.globs[n]; g != nil {
				f(g)
			}
		}
	}
}
