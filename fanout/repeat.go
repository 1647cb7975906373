package fanout

import (
	"time"

	"xdsrelay/relay/cache"
)

// Pauses before a repeated request for names is answered again.
const (
	firstPause = time.Second
	lastPause  = 32 * time.Second
)

// repeat is the state of a client that may request names again. The stream's mu guards it.
//
// A delta client may subscribe to names again while it acknowledges a response. It may have dropped
// a name and subscribed to it again in the meantime, and then it must get the name (B35). But some
// clients state all their names with every ACK (contour's command line does), and if the relay
// answered each at once, that would not end. So it answers the first time at once, and each further
// time in a row after a longer pause.
//
// For SotW clients see omittedLocked.
type repeat struct {
	// Delta.
	pause time.Duration
	names *cache.Names // to be sent again at the time at; nil for none
	at    time.Time

	// SotW.
	omitted *cache.Names // from stale requests; "*" means the wildcard
}

// askedAgain records that the client subscribed to names again: with an ACK, with a NACK, or in a
// request of its own.
func (ts *typeState) askedAgain(names *cache.Names, answer verdict, now time.Time) {
	switch {
	case answer == rejected:
		// B14: rejected content is not sent again because of a subscription, now or later.
		if ts.repeat != nil {
			ts.repeat.names = nil
		}
	case answer == accepted && names != nil && ts.repeat != nil:
		ts.repeat.names = ts.repeat.names.With(names)
		ts.repeat.at = now.Add(ts.repeat.pause)
		ts.repeat.pause = min(2*ts.repeat.pause, lastPause)
	case answer == accepted && names != nil:
		ts.repeat = &repeat{pause: firstPause}
		ts.Force = ts.Force.With(names)
	case answer == accepted && ts.repeat != nil:
		ts.Force = ts.Force.With(ts.repeat.names)
		ts.repeat = nil
	default:
		ts.Force = ts.Force.With(names)
	}
}

// repeatLocked makes the names due that are to be sent again, at the time for that.
func (s *stream) repeatLocked(ts *typeState, now time.Time) {
	r := ts.repeat
	if r == nil || r.names == nil {
		return
	}
	if r.at.After(now) {
		s.armLocked(r.at)
		return
	}
	ts.Force, r.names = ts.Force.With(r.names), nil
}
