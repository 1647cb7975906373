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
	over := func(w *want) bool { return w.lingers() && !w.expires.After(now) }
	soon := func(w *want) {
		if w.lingers() && (next.IsZero() || w.expires.Before(next)) {
			next = w.expires
		}
	}
	t.endNames(t.namesThat(func(w *want) bool {
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
	t.keepUpLocked(woken)
	t.unlockAndSignal()
	t.tidy()
	return next
}

// endNames ends the demand for those of names for which is returns true, in steps. The caller runs
// unlockAndSignal and tidy afterwards. t.mu must not be held.
func (t *Table) endNames(names []string, is func(*want) bool, woken map[*Subscription]struct{}) {
	for some := range slices.Chunk(names, t.group.cache.step) {
		t.mu.Lock()
		t.endWantsLocked(slices.DeleteFunc(some, func(n string) bool { return !is(t.wants[n]) }), woken)
		t.keepUpLocked(woken)
		t.mu.Unlock() // the control plane is asked after the last step
	}
}

// endWantsLocked ends the demand for names without interest, and drops what no client can see any
// more. The caller runs tidy after the last of them. t.mu must be held.
func (t *Table) endWantsLocked(names []string, woken map[*Subscription]struct{}) {
	for _, name := range names {
		t.endWantLocked(t.wants[name], name)
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
	t.wild = want{leg: t.wild.leg}
	if leg := t.wildLeg(); leg != nil {
		leg.dirtyAll = true
		leg.wanted--
		t.leftAsked = leg.askedAll
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
		for _, h := range e.holds() {
			if !t.coveredLocked(h.leg, e.name, aliases) {
				t.disownLocked(e, h, woken)
			}
		}
	}
	switch {
	case e.res != nil, t.wants[e.name] != nil, t.askedForLocked(e):
	case e.denied && t.coveredLocked(e.leg, e.name, e.former): // clients may hold it
	case !t.wild.demanded():
		t.eraseLocked(e)
	case t.legOf(e.name) != t.wild.leg: // else the absence is still confirmed
		t.buryLocked(e)
	}
}

// askedForLocked reports whether clients ask for e by another name than its own, or asked for a
// former one.
func (t *Table) askedForLocked(e *entry) bool {
	return t.globWantedLocked(e.name) || slices.ContainsFunc(e.former, func(a string) bool { return t.wants[a] != nil })
}

// disownLocked releases the copy h of e, which has no interest on its stream any more. t.mu must be
// held.
func (t *Table) disownLocked(e *entry, h hold, woken map[*Subscription]struct{}) {
	leg := &t.legs[h.leg]
	leg.version = "" // the content is no longer what the control plane sent
	_, told := leg.dirty[e.name]
	switch {
	case h.leg == t.wild.leg && (leg.askedAll || t.leaving && t.leftAsked):
		// go-control-plane believes that the relay holds what a wildcard brought, until its name is
		// unsubscribed, too.
		leg.dropBroughtLocked(e.name, h.res.Name, false)
	case leg.differences && !told:
		// It arrived during an interest that the control plane had not been sent: it crossed the
		// end of an earlier interest.
		leg.strayLocked(e.name, h.res.Name)
	}
	u := turn{table: t, by: h.leg, first: t.gen + 1, woken: woken}
	heir := t.heirLocked(e)
	switch {
	case e.besides(h.leg) != nil:
		u.drop(e)
	case heir == Nobody:
		t.emptyLocked(e)
	default:
		// Subscribers by name know it through the wildcard of another client. It stays until the
		// stream of the name has an answer about it (D11).
		leg.count(h.res, nil)
		leg.guard.spare(e.name)
		t.legs[heir].count(nil, h.res)
		t.legs[heir].version = ""
		u.show(e, state{hold: hold{leg: heir, res: h.res, life: h.life}, member: heir == t.wild.leg})
	}
}

// heirLocked returns a stream that is asked for e by a name that it has.
func (t *Table) heirLocked(e *entry) int {
	names := append([]string{e.name}, e.aliases()...)
	if g := e.globOf(); g != nil {
		names = append(names, g.name)
	}
	for _, n := range names {
		if w := t.wants[n]; w != nil && w.leg != Nobody {
			return w.leg
		}
	}
	return Nobody
}

// coveredLocked reports whether a stream has interest in name (C10).
func (t *Table) coveredLocked(by int, name string, aliases []string) bool {
	if t.wild.leg == by && t.wild.demanded() {
		return true
	}
	asked := func(n string) bool {
		w := t.wants[n]
		return w != nil && w.leg == by
	}
	if asked(name) || slices.ContainsFunc(aliases, asked) {
		return true
	}
	return t.globWantedLocked(name) && asked(resource.GlobOf(name))
}
