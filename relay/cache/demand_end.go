package cache

import (
	"maps"
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// expireLocked ends the demand whose linger time is over at now, and drops
// what nobody sees any more. It adds to woken who sees a change by that, which
// only a name of two legs can make. It returns when to look again, zero for never;
// more says that it has ended the demand for most names, and that there are others.
func (t *Table) expireLocked(now time.Time, woken map[*Subscription]struct{}, most int) (next time.Time, more bool) {
	over := func(w *want) bool {
		if w.expires.IsZero() {
			return false
		}
		if w.expires.After(now) {
			if next.IsZero() || w.expires.Before(next) {
				next = w.expires
			}
			return false
		}
		return true
	}
	var ended []string
	for name, w := range t.wants {
		if !over(w) {
			continue
		}
		if more = len(ended) == most; more {
			break
		}
		ended = append(ended, name)
	}
	t.endWantsLocked(ended, woken)
	if more {
		return next, more
	}
	if over(&t.wild) {
		t.leaveWildcardLocked(woken)
	}
	t.tidyWantsLocked()
	return next, false
}

// endWantsLocked ends the demand for names that nobody wants, and drops what nobody sees any
// more. After the last of them comes tidyWantsLocked.
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

// tidyWantsLocked gives back what else was kept for names that are not wanted any more.
func (t *Table) tidyWantsLocked() {
	t.forgetUnwantedLocked()
	if t.expired > spacious {
		t.shrinkLocked()
	}
	t.expired = 0
}

// spacious is how many names may be gone from a map that is kept: maps do not shrink
// by themselves, and to clear one costs as much as it has ever held.
const spacious = 1024

// shrinkLocked gives back the room of what is gone.
func (t *Table) shrinkLocked() {
	t.wants, t.entries = maps.Clone(t.wants), maps.Clone(t.entries)
	for i := range t.legs {
		t.legs[i].unanswered = maps.Clone(t.legs[i].unanswered)
	}
}

// emptied is m without anything in it.
func emptied[V any](m map[string]V) map[string]V {
	if len(m) > spacious {
		return make(map[string]V)
	}
	clear(m)
	return m
}

// leaveWildcardLocked ends the demand for the wildcard.
func (t *Table) leaveWildcardLocked(woken map[*Subscription]struct{}) {
	t.wild = want{leg: t.wild.leg}
	if leg := t.wildLeg(); leg != nil {
		leg.dirtyAll = true
		leg.wanted--
	}
	for _, e := range t.entries {
		t.dropUnwantedLocked(e, woken)
	}
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
	case h.leg == t.wild.leg && leg.askedAll:
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
