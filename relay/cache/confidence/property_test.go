package confidence

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// times restates the times of a [Confidence] as fields that each event sets by itself.
type times struct {
	flags
	since, slept, confirmedTo, restoredAsOf time.Time
}

// asOf restates [Confidence.AsOf].
func (f *times) asOf(now time.Time, e Evidence) time.Time {
	silence := f.since.Add(Silence)
	if f.stored {
		if e.Written.After(f.restoredAsOf) {
			return e.Written
		}
		return f.restoredAsOf
	}
	if e.Up && !f.idled && !(f.awaiting && now.Before(silence)) {
		return now
	}
	if f.slept.After(time.Time{}) && f.slept.Before(e.Lost) && e.Lost.Before(silence) {
		return f.slept
	}
	if f.confirmedTo.After(time.Time{}) && (!f.awaiting || e.Lost.Before(silence)) {
		return f.confirmedTo
	}
	if e.Mirrored.After(e.Lost) {
		return e.Mirrored
	}
	return e.Lost
}

// apply makes an event happen to both. all says that what is restored replaces the rest.
func (f *times) apply(c *Confidence, e Event, now, at time.Time, evidence Evidence, all bool) {
	asOf := f.asOf(now, evidence)
	stored, confirms := f.stored, e == StayedUp && f.flags.slept && !f.idled && !f.stored
	f.flags.apply(e)
	if f.started {
		f.since = now
	}
	if f.marked {
		f.confirmedTo = asOf
	}
	asOf = c.AsOf(now, evidence)
	switch e {
	case Answered:
		*f = times{flags: f.flags}
		c.Answered()
	case PartAnswered:
		c.PartAnswered(now)
	case AskedAgain:
		c.AskedAgain(now, asOf)
	case AskedMore:
		c.AskedMore(now)
	case Moved:
		c.Moved()
	case Resumed, ResumedEmpty:
		c.Resumed(e == Resumed)
	case Woke:
		f.slept = at
		c.Woke(at, now)
	case CopyRestored:
		if !stored || all || at.Before(f.restoredAsOf) {
			f.restoredAsOf = at
		}
		if all {
			c.RenewedFrom(at)
		} else {
			c.RestoredFrom(at)
		}
	case NamesAssumed:
		c.NamesAssumed()
	case HoldBegan:
		c.HoldBegan()
	case HoldEnded:
		c.HoldEnded()
	case Released:
		c.Released(asOf)
	case StayedUp:
		c.StayedUp(asOf)
	}
	if confirms {
		f.slept = time.Time{}
	}
	if !f.awaiting {
		f.since = time.Time{}
	}
}

// differs returns how a confidence contradicts the fields; empty if not.
func (f *times) differs(c *Confidence, now time.Time, e Evidence) string {
	silence := !now.Before(f.since.Add(Silence))
	for q := range questions {
		if is, want := c.Is(q, now), f.answer(q, silence); is != want {
			return fmt.Sprintf("%v is %v while %v, expected %v", q, is, c.State, want)
		}
	}
	always := []bool{c.Withheld(), c.Unconfirmed(), c.FromLastGood(), c.Missed(), c.Confirms()}
	for i, q := range []Question{Withheld, Unconfirmed, FromLastGood, Missed, Confirms} {
		if always[i] != f.answer(q, silence) {
			return fmt.Sprintf("%v is %v while %v", q, always[i], c.State)
		}
	}
	switch is, want := c.AsOf(now, e), f.asOf(now, e); {
	case !is.Equal(want):
		return fmt.Sprintf("as of %v while %v, expected %v", is, c.State, want)
	case !c.Since().Equal(f.since):
		return fmt.Sprintf("an answer is awaited since %v, expected %v", c.Since(), f.since)
	case f.stored != !c.RestoredAsOf().IsZero() || f.stored && !c.RestoredAsOf().Equal(f.restoredAsOf):
		return fmt.Sprintf("restored as of %v, expected %v", c.RestoredAsOf(), f.restoredAsOf)
	}
	return ""
}

// TestRandomEvents holds over random sequences of events at random times that each question has the
// answer, and each time the value, that the facts demand.
func TestRandomEvents(t *testing.T) {
	start := time.Unix(1e9, 0)
	rapid.Check(t, func(t *rapid.T) {
		var c Confidence
		var f times
		now, evidence := start, Evidence{Lost: start.Add(-time.Hour)}
		past := func(name string) time.Time {
			return now.Add(-rapid.SampledFrom([]time.Duration{0, time.Second, 7 * time.Second, time.Minute}).Draw(t, name))
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 4999 * time.Millisecond, Silence, time.Minute}).Draw(t, "pause"))
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				if evidence.Up {
					evidence.Lost = past("lost")
				}
				evidence.Up = !evidence.Up
			case 1:
				evidence.Mirrored, evidence.Written = past("mirrored"), past("written")
			default:
				e := rapid.SampledFrom(allEvents()).Draw(t, "event")
				if !f.possible(e) {
					continue
				}
				f.forgetEffects()
				f.apply(&c, e, now, past("at"), evidence, rapid.Bool().Draw(t, "all"))
			}
			if wrong := f.differs(&c, now, evidence); wrong != "" {
				t.Fatal(wrong)
			}
		}
	})
}

func allEvents() (all []Event) {
	for e := range events {
		all = append(all, e)
	}
	return all
}
