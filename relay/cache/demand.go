package cache

import (
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
	turn    uint32 // tableLeg.turn when it was noted that the name is not wanted
	spelled string // how it was asked for, or what its origin calls it; "" for the canonical form
}

// demanded reports whether the origin should serve it: somebody wants it, or
// did a moment ago (K10).
func (w *want) demanded() bool { return w.subs.len() > 0 || !w.expires.IsZero() }

// lingers reports whether nobody wants it any more, but did a moment ago.
func (w *want) lingers() bool { return w != nil && !w.expires.IsZero() }

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
		t.addWantLocked(name, w)
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
	if t.openLocked(w, name) {
		s.open = name
	}
}

func (t *Table) addWantLocked(name string, w *want) {
	t.wants[name] = w
	if t.nextWants != nil {
		t.nextWants[name] = w
	}
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
		t.dropRestLocked()
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
	leg.dirty[name] = told{stray: stray, turn: leg.turn, spelled: w.spelled}
}
