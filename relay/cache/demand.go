package cache

import (
	"time"

	"xdsrelay/relay/resource"
)

// want is the interest of all clients in one name, or in the wildcard.
type want struct {
	leg     int // the stream that serves it, or Nobody
	subs    subscribers
	seq     uint64    // Table.seq when the interest began
	size    int32     // of the name in a request on the stream; 0 if it is not asked for
	asked   bool      // the control plane has been asked
	booked  bool      // it counts in Group.lingering
	shed    bool      // it is not asked for; see Feed.Shed
	expires time.Time // without subscribers: the end of its linger time
	spelled string    // how it is asked for, "" for the canonical form
}

// told is a change of one name that the control plane still has to be sent: subscribe if there is
// interest in the name on the stream, otherwise unsubscribe.
type told struct {
	stray   bool   // see stray.go
	turn    uint32 // tableLeg.turn when the interest ended
	spelled string // how the name was asked for, or how the control plane spells it; "" for the canonical form
}

// demanded reports whether the control plane should serve it: it has subscribers, or had some a
// moment ago (K10).
func (w *want) demanded() bool { return w.subs.len() > 0 || !w.expires.IsZero() }

// lingers reports whether it has no subscribers any more, but had some a moment ago.
func (w *want) lingers() bool { return w != nil && !w.expires.IsZero() }

// askedOf reports whether the name is asked for on a stream, or has to be.
func (w *want) askedOf(leg int) bool { return w != nil && w.leg == leg && !w.shed }

func (w *want) add(s *Subscription) {
	w.subs.add(s)
	w.expires = time.Time{}
}

// wantLocked records that s asks for name. spelled is the client's spelling if that differs,
// otherwise "". t.mu must be held.
func (t *Table) wantLocked(s *Subscription, name, spelled string) {
	w := t.wants[name]
	if w == nil {
		t.seq++
		w = &want{leg: t.legOf(name), seq: t.seq}
		t.addWantLocked(name, w)
		t.bytes += wantSize(name)
		if e := t.entries[name]; e != nil && e.res == nil && w.leg != t.wild.leg && !t.askedForLocked(e) {
			t.buryLocked(e) // its absence from the wildcard set proves nothing about the name (D11)
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

// denyLocked makes those of names absent that no stream serves. It wakes no subscription: only the
// client that asks for them at this moment sees it. t.mu must be held.
func (t *Table) denyLocked(names []string) {
	for _, n := range names {
		if w := t.wants[n]; w.leg == Nobody && t.entries[n] == nil {
			t.gen++
			t.setLocked(n, state{}, t.gen, make(map[*Subscription]struct{}))
		}
	}
}

// askForLocked makes the stream of a new name ask for it. If the control plane has not yet been
// sent the end of an earlier interest, it is asked in the spelling that it knows. t.mu must be
// held.
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

// wildLeg is the stream that serves the wildcard, nil if none does.
func (t *Table) wildLeg() *tableLeg {
	if t.wild.leg == Nobody {
		return nil
	}
	return &t.legs[t.wild.leg]
}

// forgetLocked records that s no longer asks for name. The name stays subscribed for the linger
// time, so that reconnecting clients find it (K10), unless there are too many: clients may keep
// asking for new names. t.mu must be held.
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

// stopAskingLocked reverses askForLocked.
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
	case w.shed: // the stream already unsubscribes
	case w.asked:
		t.dropLocked(leg, w, name)
	default:
		delete(leg.dirty, name)
	}
}

// dropLocked makes a stream unsubscribe from a name that it has asked for.
func (t *Table) dropLocked(leg *tableLeg, w *want, name string) {
	stray := leg.dirty[name].stray // it may have been one when the interest began
	leg.dirty[name] = told{stray: stray, turn: leg.turn, spelled: w.spelled}
}
