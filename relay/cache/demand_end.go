package cache

import (
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// expire ends the demand whose linger time has passed at now, and drops what no client can see any
// more. It adds subscriptions that see a change by that to woken, which only a name with copies of
// two streams can cause. It returns when to check again, zero for never: interests that begin to
// linger meanwhile schedule that themselves, see [Group.lingerFrom]. t.mu must not be held.
func (t *Table) expire(now time.Time, woken map[*Subscription]struct{}) (next time.Time) {
	over := func(w *interest) bool { return w.lingers() && !w.expires.After(now) }
	soon := func(w *interest) {
		if w.lingers() && (next.IsZero() || w.expires.Before(next)) {
			next = w.expires
		}
	}
	t.endNames(t.namesThat(func(w *interest) bool {
		if !over(w) {
			soon(w)
			return false
		}
		return true
	}), over, woken)
	t.mu.Lock()
	leaves := over(&t.wild)
	if leaves {
		t.leaveWildcardLocked()
	} else {
		soon(&t.wild)
	}
	t.mu.Unlock()
	if leaves {
		t.dropMembers(woken)
	}
	t.mu.Lock()
	t.recheckHeadLocked(woken)
	t.unlockAndSignal()
	t.tidy()
	return next
}

// endNames ends the demand for those of names for which is returns true, in steps. The caller runs
// unlockAndSignal and tidy afterwards. t.mu must not be held.
func (t *Table) endNames(names []string, is func(*interest) bool, woken map[*Subscription]struct{}) {
	for some := range slices.Chunk(names, t.group.cache.step) {
		t.mu.Lock()
		t.endInterestsLocked(slices.DeleteFunc(some, func(n string) bool { return !is(t.interests[n]) }), woken)
		t.recheckHeadLocked(woken)
		t.mu.Unlock() // the control plane is asked after the last step
	}
}

// endInterestsLocked ends the demand for names without interest, and drops what no client can see
// any more. The caller runs tidy after the last of them. t.mu must be held.
func (t *Table) endInterestsLocked(names []string, woken map[*Subscription]struct{}) {
	for _, name := range names {
		t.endInterestLocked(t.interests[name], name)
	}
	for _, name := range names {
		t.eachOfLocked(name, func(e *entry) { t.dropUnwantedLocked(e, woken) })
	}
	for _, name := range names {
		if g := t.globs[name]; g != nil {
			t.dropGlobLocked(g)
		}
	}
	t.expired += len(names)
}

// tidy frees what else was kept for names without interest. t.mu must not be held.
func (t *Table) tidy() {
	t.forgetUnwanted()
	t.mu.Lock()
	many := t.expired > spacious
	t.expired = 0
	t.mu.Unlock()
	if many {
		t.shrink()
	}
}

// spacious is how many names may be missing from a map before a copy replaces it: maps do not
// shrink by themselves, and clearing one costs as much as it ever held.
const spacious = 1024

// leaveWildcardLocked ends the demand for the wildcard. dropMembers has to follow. t.mu must be
// held.
func (t *Table) leaveWildcardLocked() {
	t.wild = interest{stream: t.wild.stream}
	if stream := t.wildStream(); stream != nil {
		stream.dirtyAll = true
		stream.wanted--
		t.leftAsked = stream.askedAll
	}
	t.leaving = true
}

// dropMembers drops in steps what no client can see any more without the wildcard. t.mu must not be
// held.
func (t *Table) dropMembers(woken map[*Subscription]struct{}) {
	for _, e := range inSteps(t, &t.mu, &t.entries) {
		if !t.leaving {
			return
		}
		t.dropUnwantedLocked(e, woken)
	}
	t.mu.Lock()
	t.leaving = false
	t.mu.Unlock()
}

// dropRestLocked completes dropMembers in one piece: there is interest in the wildcard again, and
// no client may see leftovers of its previous content.
func (t *Table) dropRestLocked() {
	if !t.leaving {
		return
	}
	for _, e := range t.entries {
		t.dropUnwantedLocked(e, t.woken)
	}
	t.leaving = false
}

// dropUnwantedLocked forgets the parts of an entry that no demand covers any more.
func (t *Table) dropUnwantedLocked(e *entry, woken map[*Subscription]struct{}) {
	if e.res != nil {
		aliases := e.aliases()
		for _, h := range e.copies() {
			if !t.coveredLocked(h.stream, e.name, aliases) {
				t.releaseCopyLocked(e, h, woken)
			}
		}
	}
	switch {
	case e.res != nil, t.interests[e.name] != nil, t.askedForLocked(e):
	case e.denied && t.coveredLocked(e.stream, e.name, e.former): // clients may hold it
	case !t.wild.demanded():
		t.forgetEntryLocked(e)
	case t.streamOf(e.name) != t.wild.stream: // else the absence is still confirmed
		t.expireTombstoneLocked(e)
	}
}

// askedForLocked reports whether clients ask for e by another name than its own, or asked for a
// former one.
func (t *Table) askedForLocked(e *entry) bool {
	return t.globWantedLocked(e.name) || slices.ContainsFunc(e.former, func(a string) bool { return t.interests[a] != nil })
}

// releaseCopyLocked releases the copy h of e, which has no interest on its stream any more. t.mu
// must be held.
func (t *Table) releaseCopyLocked(e *entry, h resourceCopy, woken map[*Subscription]struct{}) {
	stream := &t.streams[h.stream]
	stream.version = "" // the content is no longer what the control plane sent
	_, sent := stream.dirty[e.name]
	switch {
	case h.stream == t.wild.stream && (stream.askedAll || t.leaving && t.leftAsked):
		// go-control-plane believes that the relay holds what a wildcard brought, until its name is
		// unsubscribed, too.
		stream.dropBroughtLocked(e.name, h.res.Name, false)
	case stream.differences && !sent:
		// It arrived during an interest that the control plane had not been sent: it crossed the
		// end of an earlier interest.
		stream.addGhostLocked(e.name, h.res.Name)
	}
	u := updateTxn{table: t, by: h.stream, first: t.gen + 1, woken: woken}
	fallback := t.fallbackStreamLocked(e)
	switch {
	case e.otherCopy(h.stream) != nil:
		u.drop(e)
	case fallback == Nobody:
		t.emptyLocked(e)
	default:
		// Subscribers by name know it through the wildcard of another client. It stays until the
		// stream of the name has an answer about it (D11).
		stream.count(h.res, nil)
		stream.guard.release(e.name)
		t.streams[fallback].count(nil, h.res)
		t.streams[fallback].version = ""
		u.show(e, state{resourceCopy: resourceCopy{stream: fallback, res: h.res, ttlState: h.ttlState}, member: fallback == t.wild.stream})
	}
}

// fallbackStreamLocked returns a stream that is asked for e by a name that it has.
func (t *Table) fallbackStreamLocked(e *entry) int {
	names := append([]string{e.name}, e.aliases()...)
	if g := e.globOf(); g != nil {
		names = append(names, g.name)
	}
	for _, n := range names {
		if w := t.interests[n]; w != nil && w.stream != Nobody {
			return w.stream
		}
	}
	return Nobody
}

// coveredLocked reports whether a stream has interest in name (C10).
func (t *Table) coveredLocked(by int, name string, aliases []string) bool {
	if t.wild.stream == by && t.wild.demanded() {
		return true
	}
	asked := func(n string) bool {
		w := t.interests[n]
		return w != nil && w.stream == by
	}
	if asked(name) || slices.ContainsFunc(aliases, asked) {
		return true
	}
	return t.globWantedLocked(name) && asked(resource.GlobOf(name))
}
