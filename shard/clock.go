package shard

import "time"

// Clock returns the time of day, for stamps that leave the process: other nodes read them, and this
// node does after a restart. All else goes by [time.Now], whose differences stay right when the
// time of day is set. Nil is the clock of the machine. It is called with no lock held, so that tests
// can stop a node in it.
type Clock func() time.Time

// Now returns the time of day.
func (c Clock) Now() time.Time {
	if c == nil {
		return time.Now().Round(0)
	}
	return c()
}

// Stamp returns the time of day, as the clock counts it now, of a moment of this process; zero if
// that is zero.
func (c Clock) Stamp(moment time.Time) time.Time {
	if moment.IsZero() {
		return moment
	}
	return c.Now().Add(time.Until(moment))
}

// clocksDiffer is how far ahead a stamp of the past may be: clocks that are kept right differ by less.
const clocksDiffer = 5 * time.Second

// Past returns what a moment that is now or in the past, as a stamp says, proves at another moment, now.
// One that is in the future was stamped by a clock that was wrong, or is wrong now, and proves nothing:
// the result is zero, or now if clocks may differ by so much.
func Past(moment, now time.Time) time.Time {
	switch ahead := moment.Sub(now); {
	case ahead > clocksDiffer:
		return time.Time{}
	case ahead > 0:
		return now
	}
	return moment
}

// Moment returns the moment of this process that a stamp stands for; zero if that is zero.
func (c Clock) Moment(stamp time.Time) time.Time {
	if stamp.IsZero() {
		return stamp
	}
	return time.Now().Add(stamp.Sub(c.Now()))
}
