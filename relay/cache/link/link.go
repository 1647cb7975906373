package link

import "time"

// Noticed is the maximum time that a node needs to notice that it is cut off.
const Noticed = 5 * time.Second

// Link is the state of one upstream stream of a key. The zero value is that of a new key.
type Link struct {
	State
	Others   Others
	Versions Versions

	since   time.Time // of the phase; zero if unneeded
	why     error     // there is no stream, if idle or failed
	lost    time.Time // when a stream last ended on which something was received
	resumed time.Time // when a stream began that did not immediately follow another one
}

// step applies an event at a time.
func (l *Link) step(e Event, now time.Time) Effect {
	effect := l.State.step(e)
	if effect&Lose != 0 {
		l.lost = now
	}
	if effect&Resume != 0 && now.Sub(l.lost) > Noticed {
		l.resumed = now
	}
	if effect&Restart != 0 {
		l.since = now
	}
	return effect
}

// Start records that a feed begins, which is responsible for the stream from now on.
func (l *Link) Start(now time.Time) {
	l.step(Started, now)
	l.Versions.restart()
}

// Up records that the stream is established.
func (l *Link) Up(now time.Time) Effect {
	return l.step(Up, now)
}

// Down records that there is no stream, and why.
func (l *Link) Down(why error, now time.Time) Effect {
	l.why = why
	return l.step(Down, now)
}

// Move records where the next stream leads. The previous one has ended, and the other nodes have to
// be asked again.
func (l *Link) Move(to Target, now time.Time) {
	e := Returned
	if to == OtherNode {
		e = Borrowed
	}
	l.step(e, now)
	l.Others.forget()
}

// Hear records whether the stream counts as established by its silence alone, now or as soon as it
// is up.
func (l *Link) Hear(v Voice) {
	e := Responded
	if v == Mute {
		e = Silenced
	}
	l.step(e, time.Time{})
}

// Sleep records that the process began to sleep at a time, and is awake now. Clients wait for the
// comparison with other nodes, if there is a stream or an attempt.
func (l *Link) Sleep(began, now time.Time) {
	l.step(Slept, began)
	if !off.Has(l.Phase) {
		l.Others.AwaitedSince = now
	}
}

// IsCutOff reports whether there is no stream, by an attempt that has ended since the process last slept.
func (l *Link) IsCutOff() bool { return cut.Has(l.Phase) }

// Release records that nothing is wanted of the stream any more.
func (l *Link) Release(now time.Time) {
	l.step(Released, now)
	l.since = time.Time{}
}

// Idle records that the key is idle, and why there is no stream.
func (l *Link) Idle(why error, now time.Time) {
	l.why = why
	l.step(Idled, now)
}

// IsUp reports whether there is a stream.
func (l *Link) IsUp() bool { return l.Phase == Established }

// Since is when the phase began; zero if the stream is unneeded.
func (l *Link) Since() time.Time { return l.since }

// Err is why there is no stream; nil if there is one, during the first attempt, and if the stream is
// unneeded.
func (l *Link) Err() error {
	if down.Has(l.Phase) {
		return l.why
	}
	return nil
}

// IsDown reports whether the last attempt has failed, before or after the process last slept, or the key
// is idle.
func (l *Link) IsDown() bool { return down.Has(l.Phase) }

// HasFailed reports whether the last attempt has failed.
func (l *Link) HasFailed() bool { return failed.Has(l.Phase) }

// IsBorrowed reports whether the stream leads to another node.
func (l *Link) IsBorrowed() bool { return l.Target == OtherNode }

// AsksControlPlane reports whether this node has a stream of its own to the control plane.
func (l *Link) AsksControlPlane() bool { return l.Target == ControlPlane && l.IsUp() }

// MayRevoke reports whether the control plane can revoke its removals: this node asks it, and it is
// not known to be unreachable.
func (l *Link) MayRevoke() bool { return l.Target == ControlPlane && !l.IsDown() }

// AwaitOthers records that clients wait from now on until other nodes were asked again, and reports
// whether they do: not while the control plane may answer, nor if there are no others.
func (l *Link) AwaitOthers(now time.Time) bool {
	if !l.Others.Exist || !l.IsDown() {
		return false
	}
	l.Others.AwaitedSince = now
	return true
}

// MayImprove reports whether something newer than the last known good may arrive soon: from the
// control plane, or from other nodes.
func (l *Link) MayImprove() bool { return l.Others.Awaited() || !l.IsDown() }

// Confirms reports whether there is a stream on which something was received.
func (l *Link) Confirms() bool { return l.IsUp() && l.Voice == Heard }

// ConfirmsSince reports whether it has been established since before a time.
func (l *Link) ConfirmsSince(at time.Time) bool { return l.Confirms() && l.since.Before(at) }

// Lost is when a stream on which something was received last ended; zero if none did.
func (l *Link) Lost() time.Time { return l.lost }

// KnowsSince returns since when the stream has been established, apart from brief interruptions; ok
// is false if it is not.
func (l *Link) KnowsSince(now time.Time) (since time.Time, ok bool) {
	return l.resumed, l.IsUp() || now.Sub(l.lost) <= Noticed
}

// AsksFirst reports whether other nodes have to be asked before the control plane.
func (l *Link) AsksFirst(now time.Time) bool {
	return l.Target == ControlPlane && l.Others.due(now)
}

// Unasked reports whether a node still has to be asked for what it has, although the control plane
// was asked.
func (l *Link) Unasked(node string, now time.Time) bool {
	return l.Target == ControlPlane && node != "" && l.Others.late(now) && l.Others.Unmet(node)
}
