package cache

import (
	"slices"
	"time"

	"xdsrelay/relay/cache/demand"
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// expire ends the demand whose linger time has passed at now, and drops what no client can see any
// more. It adds subscriptions that see a change by that to woken, which only a name with copies of
// two streams can cause. It returns when to check again, zero for never: interests that begin to
// linger meanwhile schedule that themselves, see [Group.lingerFrom]. Pending changes stay: without some of
// them, a revision would look like another one. t.mu must not be held.
func (t *Table) expire(now time.Time, woken map[*Subscription]struct{}) (next time.Time) {
	isOver := func(w *interest) bool { return w.Lingers() && !w.Expires().After(now) }
	over := func(name string, w *interest) bool { return isOver(w) && !t.core.isPending(w.Stream(), name) }
	soon := func(w *interest) {
		if !w.Lingers() {
			return
		}
		at := w.Expires()
		if !at.After(now) { // something is pending
			at = now.Add(t.group.lingers())
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	t.endNames(t.namesThat(func(name string, w *interest) bool {
		if !over(name, w) {
			soon(w)
			return false
		}
		return true
	}), over, woken)
	t.mu.Lock()
	wildcard := t.core.demand.Wildcard()
	leaves := isOver(wildcard) && !t.core.hasPending(wildcard.Stream())
	if leaves {
		t.core.leaveWildcard()
	} else {
		soon(wildcard)
	}
	t.mu.Unlock()
	if leaves {
		t.dropMembers(woken)
	}
	t.mu.Lock()
	t.core.recheckHead(woken)
	t.unlockAndSignal()
	t.tidy()
	return next
}

// hasPending reports whether anything is pending of a stream.
func (t *core) hasPending(stream int) bool {
	return stream != Nobody && t.streams[stream].gate != nil && t.streams[stream].gate.Len() > 0
}

// isPending reports whether a canonical name is pending of a stream.
func (t *core) isPending(stream int, name string) (is bool) {
	if stream != Nobody && t.streams[stream].gate != nil {
		_, is = t.streams[stream].gate.Get(name)
	}
	return is
}

// endNames ends the demand for those of names for which is returns true, in steps. The caller runs
// unlockAndSignal and tidy afterwards. t.mu must not be held.
func (t *Table) endNames(names []string, is func(string, *interest) bool, woken map[*Subscription]struct{}) {
	for some := range slices.Chunk(names, t.group.cache.step) {
		t.mu.Lock()
		t.core.endInterests(slices.DeleteFunc(some, func(n string) bool { return !is(n, t.core.demand.Get(n)) }), woken)
		t.core.recheckHead(woken)
		t.mu.Unlock() // the control plane is asked after the last step
	}
}

// endInterests ends the demand for names without interest, and drops what no client can see
// any more. The caller runs tidy after the last of them.
func (t *core) endInterests(names []string, woken map[*Subscription]struct{}) {
	for _, name := range names {
		t.endInterest(t.demand.Get(name), name)
	}
	for _, name := range names {
		t.store.EachOf(name, func(e *table.Entry) { t.dropUnwanted(e, woken) })
	}
	for _, name := range names {
		t.store.DropGlob(name)
		t.endPending(name)
	}
	t.expired += len(names)
}

// tidy frees what else was kept for names without interest. t.mu must not be held.
func (t *Table) tidy() {
	t.forgetUnwanted()
	t.mu.Lock()
	many := t.core.expired > demand.Spacious
	if t.core.expired > 0 {
		t.core.forgetOrders()
	}
	t.core.expired = 0
	t.mu.Unlock()
	if many {
		t.shrink()
	}
}

// leaveWildcard ends the demand for the wildcard. dropMembers has to follow.
func (t *core) leaveWildcard() {
	t.leaving = leavingUnasked
	if t.demand.EndWildcard() {
		t.leaving = leavingAsked
	}
}

// dropMembers drops in steps what no client can see any more without the wildcard. t.mu must not be
// held.
func (t *Table) dropMembers(woken map[*Subscription]struct{}) {
	for _, e := range t.core.entriesInSteps(&t.mu) {
		if t.core.leaving == notLeaving {
			return
		}
		t.core.dropUnwanted(e, woken)
	}
	t.mu.Lock()
	t.core.leaving = notLeaving
	t.core.endAllPending()
	t.core.forgetOrders()
	t.mu.Unlock()
}

// dropRest completes dropMembers in one piece: there is interest in the wildcard again, and
// no client may see leftovers of its previous content.
func (t *core) dropRest() {
	if t.leaving == notLeaving {
		return
	}
	for _, e := range t.store.Entries() {
		t.dropUnwanted(e, t.woken)
	}
	t.endAllPending()
	t.leaving = notLeaving
}

// dropUnwanted forgets the parts of an entry that no demand covers any more.
func (t *core) dropUnwanted(e *table.Entry, woken map[*Subscription]struct{}) {
	if e.Res != nil {
		aliases := e.Aliases()
		for _, h := range e.Copies() {
			if !t.covered(h.Stream, e.Name, aliases) {
				t.releaseCopy(e, h, woken)
			}
		}
	}
	switch {
	case e.Res != nil, t.demand.Get(e.Name) != nil, t.askedFor(e):
	case e.Denied && t.covered(e.Stream, e.Name, e.Former()): // clients may hold it
	case !t.demand.Wildcard().Demanded():
		t.forgetEntry(e)
	case t.streamOf(e.Name) != t.demand.Wildcard().Stream(): // else the absence is still confirmed
		t.expireTombstone(e)
	}
}

// askedFor reports whether clients ask for e by another name than its own, or asked for a
// former one.
func (t *core) askedFor(e *table.Entry) bool {
	return t.globWanted(e.Name) || slices.ContainsFunc(e.Former(), func(a string) bool { return t.demand.Get(a) != nil })
}

// releaseCopy releases the copy h of e, which has no interest on its stream any more.
func (t *core) releaseCopy(e *table.Entry, h table.Copy, woken map[*Subscription]struct{}) {
	stream := &t.streams[h.Stream]
	stream.forgetVersion() // the content is no longer what the control plane sent
	if stream.gate != nil {
		stream.gate.End(e.Name)
	}
	brought := h.Stream == t.demand.Wildcard().Stream() && (t.demand.Stream(h.Stream).WildcardAsked() || t.leaving == leavingAsked)
	t.demand.Release(h.Stream, e.Name, h.Res.Name, brought)
	u := updateTxn{table: t, by: h.Stream, first: t.store.Gen() + 1, woken: woken}
	fallback := t.fallbackStream(e)
	switch {
	case e.OtherCopy(h.Stream) != nil:
		u.drop(e)
	case fallback == Nobody:
		t.empty(e)
	default:
		// Subscribers by name know it through the wildcard of another client. It stays until the
		// stream of the name has an answer about it (D11).
		t.store.Count(h.Stream, h.Res, nil)
		stream.guard.Release(e.Name)
		t.streams[fallback].rebase(e.Name, h.Res)
		t.store.Count(fallback, nil, h.Res)
		t.streams[fallback].forgetVersion()
		u.show(e, table.State{Copy: table.Copy{Stream: fallback, Res: h.Res, TTLState: h.TTLState}, Member: fallback == t.demand.Wildcard().Stream()})
	}
}

// fallbackStream returns a stream that is asked for e by a name that it has.
func (t *core) fallbackStream(e *table.Entry) int {
	names := append([]string{e.Name}, e.Aliases()...)
	if g := e.Glob(); g != nil {
		names = append(names, g.Name)
	}
	for _, n := range names {
		if w := t.demand.Get(n); w != nil && w.Stream() != Nobody {
			return w.Stream()
		}
	}
	return Nobody
}

// covered reports whether a stream has interest in name (C10).
func (t *core) covered(by int, name string, aliases []string) bool {
	if t.demand.WildcardOn(by) {
		return true
	}
	asked := func(n string) bool {
		w := t.demand.Get(n)
		return w != nil && w.Stream() == by
	}
	if asked(name) || slices.ContainsFunc(aliases, asked) {
		return true
	}
	return t.globWanted(name) && asked(resource.GlobOf(name))
}
