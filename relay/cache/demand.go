package cache

import (
	"time"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// interest is the interest of all clients in one name, or in the wildcard.
type interest struct {
	stream  int // the stream that serves it, or Nobody
	subs    subscribers
	seq     uint64    // Table.seq when the interest began
	size    int32     // of the name in a request on the stream; 0 if it is not asked for
	asked   bool      // the control plane has been asked
	booked  bool      // it counts in Group.lingering
	shed    bool      // it is not asked for; see Feed.Shed
	expires time.Time // without subscribers: the end of its linger time
	spelled string    // how it is asked for, "" for the canonical form
}

// demandChange is a change of one name that the control plane still has to be sent: subscribe if
// there is interest in the name on the stream, otherwise unsubscribe.
type demandChange struct {
	ghost   bool   // see ghost.go
	takeSeq uint32 // typeStreamState.takeSeq when the interest ended
	spelled string // how the name was asked for, or how the control plane spells it; "" for the canonical form
}

// demanded reports whether the control plane should serve it: it has subscribers, or had some a
// moment ago (K10).
func (w *interest) demanded() bool { return w.subs.len() > 0 || !w.expires.IsZero() }

// lingers reports whether it has no subscribers any more, but had some a moment ago.
func (w *interest) lingers() bool { return w != nil && !w.expires.IsZero() }

// askedOf reports whether the name is asked for on a stream, or has to be.
func (w *interest) askedOf(stream int) bool { return w != nil && w.stream == stream && !w.shed }

func (w *interest) add(s *Subscription) {
	w.subs.add(s)
	w.expires = time.Time{}
}

// addInterestLocked records that s asks for name. spelled is the client's spelling if that differs,
// otherwise "". t.mu must be held.
func (t *Table) addInterestLocked(s *Subscription, name, spelled string) {
	w := t.interests[name]
	if w == nil {
		t.seq++
		w = &interest{stream: t.streamOf(name), seq: t.seq}
		t.putInterestLocked(name, w)
		t.bytes += interestSize(name)
		if e := t.store.Get(name); e != nil && e.Res == nil && w.stream != t.wild.stream && !t.askedForLocked(e) {
			t.expireTombstoneLocked(e) // its absence from the wildcard set proves nothing about the name (D11)
		}
		if resource.IsGlob(name) {
			t.store.AddGlob(name)
		}
		w.spelled = spelled
		t.askForLocked(w, name)
		t.restoreNameLocked(name, w)
	}
	if !w.expires.IsZero() {
		t.lingering--
		t.unbookLocked(w, name)
	}
	w.add(s)
	s.countPerStream(w, 1)
	t.dependLocked(s, w)
	if t.openLocked(w, name) {
		s.open = name
	}
}

func (t *Table) putInterestLocked(name string, w *interest) {
	t.interests[name] = w
	if t.nextInterests != nil {
		t.nextInterests[name] = w
	}
}

// denyLocked makes those of names absent that no stream serves. It wakes no subscription: only the
// client that asks for them at this moment sees it. t.mu must be held.
func (t *Table) denyLocked(names []string) {
	for _, n := range names {
		if w := t.interests[n]; w.stream == Nobody && t.store.Get(n) == nil {
			t.setLocked(n, table.State{}, t.store.Next(), make(map[*Subscription]struct{}))
		}
	}
}

// askForLocked makes the stream of a new name ask for it. If the control plane has not yet been
// sent the end of an earlier interest, it is asked in the spelling that it knows. t.mu must be
// held.
func (t *Table) askForLocked(w *interest, name string) {
	if w.stream == Nobody {
		return
	}
	stream := &t.streams[w.stream]
	stream.dropGhostLocked(name)
	before, dirty := stream.dirty[name]
	if dirty {
		w.asked, w.spelled = true, before.spelled
	}
	stream.dirty[name] = before
	stream.wanted++
	t.measureLocked(stream, w, name)
	if t.store.Get(name) == nil && !t.failedLocked(name) {
		stream.unanswered[name] = w
	}
}

func (t *Table) addWildcardInterestLocked(s *Subscription) {
	begins := !t.wild.demanded()
	if begins {
		t.dropRestLocked()
		t.seq++
		t.wild = interest{stream: t.wild.stream, seq: t.seq}
		if stream := t.wildStream(); stream != nil {
			stream.dirtyAll = true
			stream.wanted++
			stream.dropGhostsLocked()
		}
	}
	t.wild.add(s)
	if begins {
		t.restoreWildcardLocked()
	}
	s.countPerStream(&t.wild, 1)
	t.dependLocked(s, &t.wild)
}

// wildStream is the stream that serves the wildcard, nil if none does.
func (t *Table) wildStream() *typeStreamState {
	if t.wild.stream == Nobody {
		return nil
	}
	return &t.streams[t.wild.stream]
}

// dropInterestLocked records that s no longer asks for name. The name stays subscribed for the
// linger time, so that reconnecting clients find it (K10), unless there are too many: clients may
// keep asking for new names. t.mu must be held.
func (t *Table) dropInterestLocked(s *Subscription, name string) {
	w := t.interests[name]
	if w == nil {
		return
	}
	w.subs.remove(s)
	s.countPerStream(w, -1)
	if w.subs.len() > 0 {
		return
	}
	w.expires = time.Now()
	if t.lingering++; t.lingering <= t.group.cache.cfg.Lingering && t.group.mayLinger(interestSize(name)) {
		w.booked = true
		w.expires = w.expires.Add(t.group.lingers())
	}
	t.group.lingerFrom(w.expires)
}

func (t *Table) dropWildcardInterestLocked(s *Subscription) {
	t.wild.subs.remove(s)
	s.countPerStream(&t.wild, -1)
	if t.wild.subs.len() == 0 {
		t.wild.expires = time.Now().Add(t.group.lingers())
		t.group.lingerFrom(t.wild.expires)
	}
}

// stopAskingLocked reverses askForLocked.
func (t *Table) stopAskingLocked(w *interest, name string) {
	if w.stream == Nobody {
		return
	}
	stream := &t.streams[w.stream]
	delete(stream.unanswered, name)
	delete(stream.absent, name)
	stream.wanted--
	t.unmeasureLocked(stream, w)
	switch {
	case w.shed: // the stream already unsubscribes
	case w.asked:
		t.dropLocked(stream, w, name)
	default:
		delete(stream.dirty, name)
	}
}

// dropLocked makes a stream unsubscribe from a name that it has asked for.
func (t *Table) dropLocked(stream *typeStreamState, w *interest, name string) {
	ghost := stream.dirty[name].ghost // it may have been one when the interest began
	stream.dirty[name] = demandChange{ghost: ghost, takeSeq: stream.takeSeq, spelled: w.spelled}
}
