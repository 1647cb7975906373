package cache

import (
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// expire ends the demand whose linger time is over at now, and drops
// what nobody sees any more. It adds to woken who sees a change by that, which
// only a name of two legs can make. It returns when to look again, zero for never: what begins
// to linger meanwhile says so itself, see [Group.lingerFrom]. t.mu must not be held.
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

// endNames ends the demand for those of names of which that is so, in steps. After it come
// unlockAndSignal and tidy. t.mu must not be held.
func (t *Table) endNames(names []string, is func(*want) bool, woken map[*Subscription]struct{}) {
	for some := range slices.Chunk(names, t.group.cache.step) {
		t.mu.Lock()
		t.endWantsLocked(slices.DeleteFunc(some, func(n string) bool { return !is(t.wants[n]) }), woken)
		t.keepUpLocked(woken)
		t.mu.Unlock() // the control plane is asked after the last step
	}
}

// endWantsLocked ends the demand for names that nobody wants, and drops what nobody sees any
// more. After the last of them comes tidy.
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

// tidy gives back what else was kept for names that are not wanted any more. t.mu must not be
// held.
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

// spacious is how many names may be gone from a map that is kept: maps do not shrink
// by themselves, and to clear one costs as much as it has ever held.
const spacious = 1024

// leaveWildcardLocked ends the demand for the wildcard. After it comes dropMembers.
func (t *Table) leaveWildcardLocked() {
	t.wild = want{leg: t.wild.leg}
	if leg := t.wildLeg(); leg != nil {
		leg.dirtyAll = true
		leg.wanted--
		t.leftAsked = leg.askedAll
	}
	t.leaving = true
}

// dropMembers drops in steps what nobody sees any more without the wildcard. t.mu must not be
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

// dropRestLocked does in one piece what dropMembers has not done yet: the wildcard is wanted
// again, and nobody may see some of what it brought before.
func (t *Table) dropRestLocked() {
	if !t.leaving {
		return
	}
	for _, e := range t.entries {
		t.dropUnwantedLocked(e, t.woken)
	}
	t.leaving = false
}

// dropUnwantedLocked forgets what of an entry no demand covers any more.
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
	case t.legOf(e.name) != t.wild.leg: // else the absence is still vouched for
		t.buryLocked(e)
	}
}

// askedForLocked reports whether somebody asks for e by another name than its own,
// or did when it went by that.
func (t *Table) askedForLocked(e *entry) bool {
	return t.globWantedLocked(e.name) || slices.ContainsFunc(e.former, func(a string) bool { return t.wants[a] != nil })
}

// disownLocked ends the hold h on e, of which nothing is wanted any more.
func (t *Table) disownLocked(e *entry, h hold, woken map[*Subscription]struct{}) {
	leg := &t.legs[h.leg]
	leg.version = "" // it no longer holds what the origin sent
	_, told := leg.dirty[e.name]
	switch {
	case h.leg == t.wild.leg && (leg.askedAll || t.leaving && t.leftAsked):
		// go-control-plane takes what a wildcard brought for held until its name
		// is dropped, too.
		leg.dropBroughtLocked(e.name, h.res.Name, false)
	case leg.differences && !told:
		// It came while it was wanted, of which the origin has not been told: it
		// crossed the end of a demand before that.
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
		// Who asks by name knows it through the wildcard of somebody else. It
		// stays until the leg of the name says something about it (D11).
		leg.count(h.res, nil)
		leg.guard.spare(e.name)
		t.legs[heir].count(nil, h.res)
		t.legs[heir].version = ""
		u.show(e, state{hold: hold{leg: heir, res: h.res, life: h.life}, member: heir == t.wild.leg})
	}
}

// heirLocked is a leg of which e is wanted by a name that it goes by.
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

// coveredLocked reports whether somebody asked a leg for name (C10).
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
