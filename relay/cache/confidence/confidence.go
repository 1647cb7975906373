package confidence

import "time"

// Confidence is what the content of a type on a stream is worth. The zero value is that of a new
// stream.
type Confidence struct {
	State
	since        time.Time // of the wait for an answer; zero if none is awaited
	slept        time.Time // when the process began to sleep, if it did since the last answer
	confirmedTo  time.Time // since then no stream has answered, nor been silent for long; zero if unknown
	restoredAsOf time.Time // of the content that was restored; zero unless some was
}

// step applies an event at a time. asOf is [Confidence.AsOf] before it, for events that may end the
// time in which the content counts as confirmed.
func (c *Confidence) step(e Event, now, asOf time.Time) Effect {
	effect := c.State.step(e)
	if effect&Mark != 0 {
		c.confirmedTo = asOf
	}
	if effect&Reset != 0 {
		c.confirmedTo = time.Time{}
	}
	switch {
	case effect&Start != 0:
		c.since = now
	case silent.Has(c.Wait):
		c.since = time.Time{}
	}
	if !missed.Has(c.Basis) {
		c.slept = time.Time{}
	}
	if c.Basis != Restored {
		c.restoredAsOf = time.Time{}
	}
	return effect
}

// Answered records a complete answer.
func (c *Confidence) Answered() Effect { return c.step(Answered, time.Time{}, time.Time{}) }

// PartAnswered records a part of what the owner of the key has to send.
func (c *Confidence) PartAnswered(now time.Time) { c.step(PartAnswered, now, time.Time{}) }

// AskedAgain records that a new stream was asked for everything. asOf is [Confidence.AsOf].
func (c *Confidence) AskedAgain(now, asOf time.Time) { c.step(AskedAgain, now, asOf) }

// AskedMore records that a stream was asked for more.
func (c *Confidence) AskedMore(now time.Time) { c.step(AskedMore, now, time.Time{}) }

// Moved records that the stream is to another server, or no longer to the owner.
func (c *Confidence) Moved() Effect { return c.step(Moved, time.Time{}, time.Time{}) }

// Resumed records that the key was idle. has says that the stream has resources.
func (c *Confidence) Resumed(has bool) Effect {
	if has {
		return c.step(Resumed, time.Time{}, time.Time{})
	}
	return c.step(ResumedEmpty, time.Time{}, time.Time{})
}

// Woke records that the process slept from a time on until now.
func (c *Confidence) Woke(began, now time.Time) Effect {
	effect := c.step(Woke, now, time.Time{})
	c.slept = began
	return effect
}

// RestoredFrom records that content was added that was current at a time.
func (c *Confidence) RestoredFrom(asOf time.Time) {
	if was := c.restoredAsOf; c.Basis == Restored && was.Before(asOf) {
		asOf = was
	}
	c.RenewedFrom(asOf)
}

// RenewedFrom records that content which was current at a time has replaced the rest.
func (c *Confidence) RenewedFrom(asOf time.Time) {
	c.step(CopyRestored, time.Time{}, time.Time{})
	c.restoredAsOf = asOf
}

// NamesAssumed records that names count as absent although no answer has ever arrived.
func (c *Confidence) NamesAssumed() { c.step(NamesAssumed, time.Time{}, time.Time{}) }

// HoldBegan records that clients have to wait.
func (c *Confidence) HoldBegan() { c.step(HoldBegan, time.Time{}, time.Time{}) }

// HoldEnded records that clients have waited for long enough.
func (c *Confidence) HoldEnded() Effect { return c.step(HoldEnded, time.Time{}, time.Time{}) }

// Released records that no answer will arrive soon. asOf is [Confidence.AsOf].
func (c *Confidence) Released(asOf time.Time) Effect { return c.step(Released, time.Time{}, asOf) }

// StayedUp records that the stream has outlived the sleep of the process. asOf is
// [Confidence.AsOf].
func (c *Confidence) StayedUp(asOf time.Time) Effect { return c.step(StayedUp, time.Time{}, asOf) }

// Is answers a question at a time.
func (c *Confidence) Is(q Question, now time.Time) bool {
	switch answers.Output(q, c.index()) {
	case Yes:
		return true
	case UntilSilence:
		return now.Before(c.silent())
	case AfterSilence:
		return !now.Before(c.silent())
	default:
		return false
	}
}

// always answers a question whose answers do not depend on the time.
func (c *Confidence) always(q Question) bool { return answers.Output(q, c.index()) == Yes }

// Withheld answers [Withheld].
func (c *Confidence) Withheld() bool { return c.always(Withheld) }

// Unconfirmed answers [Unconfirmed].
func (c *Confidence) Unconfirmed() bool { return c.always(Unconfirmed) }

// FromLastGood answers [FromLastGood].
func (c *Confidence) FromLastGood() bool { return c.always(FromLastGood) }

// Missed answers [Missed].
func (c *Confidence) Missed() bool { return c.always(Missed) }

// Silent answers [Silent].
func (c *Confidence) Silent() bool { return c.always(Silent) }

// Confirms answers [Confirms].
func (c *Confidence) Confirms() bool { return c.always(Confirms) }

// Since is since when an answer is awaited; zero if none is.
func (c *Confidence) Since() time.Time { return c.since }

// RestoredAsOf is when all that was restored was current; zero if nothing was.
func (c *Confidence) RestoredAsOf() time.Time { return c.restoredAsOf }

// silent is when the silence of the stream becomes an answer.
func (c *Confidence) silent() time.Time { return c.since.Add(Silence) }

// Evidence is what the times of the streams and of the tier prove about the content.
type Evidence struct {
	// Up says that a stream is established on which something was received; Lost is when the last
	// one ended.
	Up   bool
	Lost time.Time
	// Mirrored is as of when the owner of the key has sent its content; zero if it did not.
	Mirrored time.Time
	// Written is when the owner has recorded the present content; zero if it did not.
	Written time.Time
}

// AsOf is the last time at which the content was known to be what the control plane serves; zero if
// that is unknown.
func (c *Confidence) AsOf(now time.Time, e Evidence) time.Time {
	switch unanswered := e.Lost.Before(c.silent()); { // the last stream may have ended before the answer
	case c.FromLastGood() && e.Written.After(c.restoredAsOf):
		return e.Written // the owner of the key had that from the control plane then
	case c.FromLastGood():
		return c.restoredAsOf
	case e.Up && c.Is(Lasts, now):
		return now
	case !c.slept.IsZero() && e.Lost.After(c.slept) && unanswered:
		return c.slept
	case !c.confirmedTo.IsZero() && (c.since.IsZero() || unanswered):
		return c.confirmedTo // what arrived on the lost stream was about other types
	case e.Mirrored.After(e.Lost):
		return e.Mirrored
	}
	return e.Lost
}
