package cache

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// want is the interest of all clients in one name, or in the wildcard.
type want struct {
	leg     int // which serves it, or Nobody
	subs    subscribers
	seq     uint64    // Table.seq when the interest began
	size    int32     // what the name takes in a request to the leg; 0 if it is not asked for
	asked   bool      // the leg has been told
	booked  bool      // it counts in Group.lingering
	shed    bool      // the leg is not asked for it; see Feed.Shed
	expires time.Time // when nobody wants it any more: the end of its linger time
	spelled string    // how the leg is asked for it, "" for the canonical form
}

// told is what a leg has to be told of a name: to ask for it, if it is wanted
// there, and otherwise to drop it.
type told struct {
	stray   bool   // see stray.go
	spelled string // how it was asked for, or what its origin calls it; "" for the canonical form
}

// demanded reports whether the origin should serve it: somebody wants it, or
// did a moment ago (K10).
func (w *want) demanded() bool { return w.subs.len() > 0 || !w.expires.IsZero() }

// askedOf reports whether a leg is asked for the name, or is to be.
func (w *want) askedOf(leg int) bool { return w != nil && w.leg == leg && !w.shed }

func (w *want) add(s *Subscription) {
	w.subs.add(s)
	w.expires = time.Time{}
}

// wantLocked notes that s asks for name, which the client spells otherwise
// unless spelled is "". t.mu must be held.
func (t *Table) wantLocked(s *Subscription, name, spelled string) {
	w := t.wants[name]
	if w == nil {
		t.seq++
		w = &want{leg: t.legOf(name), seq: t.seq}
		t.wants[name] = w
		t.bytes += wantSize(name)
		if e := t.entries[name]; e != nil && e.res == nil && w.leg != t.wild.leg && !t.askedForLocked(e) {
			t.buryLocked(e) // that it is not in the wildcard set says nothing of the name (D11)
		}
		if resource.IsGlob(name) {
			t.globLocked(name)
		}
		w.spelled = spelled
		t.askForLocked(w, name)
		t.reviveNameLocked(name, w)
	}
	if !w.expires.IsZero() {
		t.lingering--
		t.unbookLocked(w, name)
	}
	w.add(s)
	s.leanOn(w, 1)
	t.dependLocked(s, w)
}

// denyLocked makes those of names absent that nobody serves. Nobody is woken by
// that: only who asks for them at this moment sees it.
func (t *Table) denyLocked(names []string) {
	for _, n := range names {
		if w := t.wants[n]; w.leg == Nobody && t.entries[n] == nil {
			t.gen++
			t.setLocked(n, state{}, t.gen, make(map[*Subscription]struct{}))
		}
	}
}

// askForLocked makes the leg of a new name ask for it, in the spelling that its
// origin knows if it has not been told yet that the name was not wanted.
func (t *Table) askForLocked(w *want, name string) {
	if w.leg == Nobody {
		return
	}
	leg := &t.legs[w.leg]
	leg.dropStrayLocked(name)
	before, dirty := leg.dirty[name]
	if dirty {
		w.asked, w.spelled = true, before.spelled
	}
	leg.dirty[name] = before
	leg.wanted++
	t.measureLocked(leg, w, name)
	if t.entries[name] == nil && !t.failedLocked(name) {
		leg.unanswered[name] = w
	}
}

func (t *Table) wantWildcardLocked(s *Subscription) {
	begins := !t.wild.demanded()
	if begins {
		t.seq++
		t.wild = want{leg: t.wild.leg, seq: t.seq}
		if leg := t.wildLeg(); leg != nil {
			leg.dirtyAll = true
			leg.wanted++
			leg.dropStraysLocked()
		}
	}
	t.wild.add(s)
	if begins {
		t.reviveWildcardLocked()
	}
	s.leanOn(&t.wild, 1)
	t.dependLocked(s, &t.wild)
}

// wildLeg is the leg that serves the wildcard, nil if nobody does.
func (t *Table) wildLeg() *tableLeg {
	if t.wild.leg == Nobody {
		return nil
	}
	return &t.legs[t.wild.leg]
}

// forgetLocked notes that s asks for name no more. The name stays subscribed
// for the linger time, so that reconnecting clients find it (K10), unless there are
// too many such: clients may ask for ever new names.
func (t *Table) forgetLocked(s *Subscription, name string) {
	w := t.wants[name]
	if w == nil {
		return
	}
	w.subs.remove(s)
	s.leanOn(w, -1)
	if w.subs.len() > 0 {
		return
	}
	w.expires = time.Now()
	if t.lingering++; t.lingering <= t.group.cache.cfg.Lingering && t.group.mayLinger(wantSize(name)) {
		w.booked = true
		w.expires = w.expires.Add(t.group.lingers())
	}
	t.group.lingerFrom(w.expires)
}

func (t *Table) forgetWildcardLocked(s *Subscription) {
	t.wild.subs.remove(s)
	s.leanOn(&t.wild, -1)
	if t.wild.subs.len() == 0 {
		t.wild.expires = time.Now().Add(t.group.lingers())
		t.group.lingerFrom(t.wild.expires)
	}
}

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
		t.endWantLocked(w, name)
		ended = append(ended, name)
	}
	t.expired += len(ended)
	if !more && over(&t.wild) {
		t.leaveWildcardLocked(woken)
	} else {
		t.dropEndedLocked(ended, woken)
	}
	t.tidyWantsLocked(ended)
	if more {
		return next, more
	}
	if t.expired > spacious {
		t.shrinkLocked()
	}
	t.expired = 0
	return next, false
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

// stopAskingLocked undoes askForLocked.
func (t *Table) stopAskingLocked(w *want, name string) {
	if w.leg == Nobody {
		return
	}
	leg := &t.legs[w.leg]
	delete(leg.unanswered, name)
	delete(leg.absent, name)
	leg.wanted--
	t.unmeasureLocked(leg, w)
	switch {
	case w.shed: // so that the leg drops it already
	case w.asked:
		t.dropLocked(leg, w, name)
	default:
		delete(leg.dirty, name)
	}
}

// dropLocked makes a leg drop a name that it has been asked for.
func (t *Table) dropLocked(leg *tableLeg, w *want, name string) {
	stray := leg.dirty[name].stray // which it may have been when it was wanted
	leg.dirty[name] = told{stray, w.spelled}
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

// Demand is what a feed has to ask of its origin for one type.
type Demand struct {
	// Table is where the answers belong.
	Table *Table
	// Wildcard says that "*" is wanted; WildcardChanged that this is news.
	Wildcard, WildcardChanged bool
	// Names is everything wanted by name, sorted, where it was asked for. All
	// names are spelled as clients do.
	Names []string
	// Subscribe and Unsubscribe are the changes since the last call; a name
	// that went and came back is subscribed again (C9). Those that a wildcard
	// brought are unsubscribed with it.
	Subscribe, Unsubscribe []string
	// Again are those of Subscribe that the origin may take for held although
	// they are not, so that they have to be dropped first. Twice are those of
	// Again that have to be dropped two times: they went and came back before
	// the origin was told.
	Again, Twice []string
}

// takeDemand returns what changed since the last call, or with all everything
// that is wanted of f's leg; with names it fills in Names. ok says whether there is
// anything to tell the origin; there is not once f has ended.
func (t *Table) takeDemand(f *Feed, all, names bool) (d Demand, ok bool) {
	t.mu.Lock()
	if f.ctx.Err() != nil {
		t.mu.Unlock()
		return d, false
	}
	if d, ok = t.takeDemandLocked(f.leg, all); ok && names {
		d.Names = t.namesOfLocked(f.leg)
	}
	t.unlockAndSignal() // there may be strays to drop
	for _, list := range [][]string{d.Names, d.Subscribe, d.Unsubscribe, d.Again, d.Twice} {
		slices.Sort(list) // there may be very many
	}
	return d, ok
}

func (t *Table) takeDemandLocked(by int, all bool) (d Demand, ok bool) {
	leg := &t.legs[by]
	d = Demand{Table: t, Wildcard: t.wild.leg == by && t.wild.demanded()}
	d.WildcardChanged = leg.dirtyAll && (d.Wildcard || leg.askedAll)
	again := func(w *want, n string, news told) {
		if !w.asked {
			return
		}
		d.Again = append(d.Again, w.name(n))
		if !news.stray && leg.differences {
			d.Twice = append(d.Twice, w.name(n))
		}
	}
	if all {
		for n, news := range leg.dirty {
			if w := t.wants[n]; w.askedOf(by) {
				again(w, n, news)
			}
		}
		if leg.asked > 0 && leg.wanted > 0 && t.gen > 0 {
			leg.unsettled = time.Now()
		}
		d.WildcardChanged = d.Wildcard
		leg.dirty = emptied(leg.dirty)
		leg.strays = nil // a new stream says what is held (C8)
		d.Subscribe = make([]string, 0, leg.wanted)
		for n, w := range t.wants {
			if w.askedOf(by) {
				d.Subscribe = append(d.Subscribe, w.name(n))
				w.asked = true
			}
		}
	}
	d.Subscribe = slices.Grow(d.Subscribe, min(len(leg.dirty), leg.wanted))
	for n, news := range leg.dirty {
		if w := t.wants[n]; w.askedOf(by) {
			again(w, n, news)
			d.Subscribe = append(d.Subscribe, w.name(n))
			w.asked = true
		} else {
			d.Unsubscribe = append(d.Unsubscribe, cmp.Or(news.spelled, n))
			leg.droppedLocked(n, news, d.Wildcard)
		}
	}
	leg.dirtyAll, leg.askedAll = false, d.Wildcard
	leg.dirty = emptied(leg.dirty)
	leg.asked = t.seq
	if len(leg.strays) > maxStrays {
		leg.dropStraysLocked()
	}
	if !d.WildcardChanged && len(d.Subscribe)+len(d.Unsubscribe) == 0 {
		return d, false
	}
	if leg.stale && !t.group.unreachable(1<<by) {
		leg.unsettled = time.Now()
	}
	return d, true
}

// namesOfLocked are the names that are wanted of a leg.
func (t *Table) namesOfLocked(leg int) []string {
	names := make([]string, 0, t.legs[leg].wanted)
	for n, w := range t.wants {
		if w.askedOf(leg) {
			names = append(names, w.name(n))
		}
	}
	return names
}
