package fanout

import (
	"time"

	"xdsrelay/relay/cache"
)

// Pauses before a repeated question is answered again.
const (
	firstPause = time.Second
	lastPause  = 32 * time.Second
)

// repeat is kept of a client that may want names again. It is guarded by the stream's mu.
//
// A delta client may ask for names again while it acknowledges a response. It may have
// dropped and wanted a name again in the meantime, and then has to get it (B35); but some
// clients state all their names with every ACK (contour's command line does), and to answer
// that at once would not end. So the first time is answered at once, and each further one in
// a row after a longer pause.
//
// For SotW clients see omittedLocked.
type repeat struct {
	// Delta.
	pause time.Duration
	names *cache.Names // to be sent again at the time at; nil: none
	at    time.Time

	// SotW.
	omitted *cache.Names // from stale requests, "*" for the wildcard among them
}

// askedAgain notes that names were asked for again: with an ACK, with a NACK,
// or by themselves.
func (ts *typeState) askedAgain(names *cache.Names, answer verdict, now time.Time) {
	switch {
	case answer == rejected:
		// B14: what was rejected is not sent again for the asking, now or
		// later.
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

// repeatLocked makes what is to be told again due when its time has come.
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
