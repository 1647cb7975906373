package fanout

import "time"

// stamp is a time in ns after the server was made, and 0 for never: a third of what
// a time.Time takes in the state of each client and type.
type stamp int64

func (s *Server) stamp(t time.Time) stamp { return stamp(t.Sub(s.began)) + 1 }

func (s *Server) timeOf(at stamp) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return s.began.Add(time.Duration(at - 1))
}

// before returns how long before another time at was.
func (at stamp) before(later stamp) time.Duration { return time.Duration(later - at) }

// standing is a [State] in a byte. The zero value is none: what was known of the
// state counts no longer.
type standing uint8

const (
	noStanding standing = iota
	standsSynced
	standsStale
	standsNacked
	standsNotSent
	standsUnknown
)

var states = [...]State{standsSynced: Synced, standsStale: Stale, standsNacked: Nacked, standsNotSent: NotSent, standsUnknown: Unknown}

// standing tells how the client stands, where head is the newest generation that it
// should see.
func (ts *typeState) standing(head uint64) standing {
	switch {
	case ts.IsRejected():
		return standsNacked
	case ts.Nonce == 0 && ts.Sent.Gen == 0:
		if ts.isUncompared() || ts.claimsVersion() {
			return standsUnknown
		}
		return standsNotSent
	case ts.Unanswered() || head > ts.Sent.Gen || ts.Force != nil:
		return standsStale
	}
	return standsSynced
}

// observe notes since when the client stands as it does. It is called when a flush
// has looked at the type, so a change is seen as soon as it could matter; ts.seen is
// what the flush has seen of the table, which spares another look.
func (ts *typeState) observe(at stamp) { ts.note(ts.standing(ts.seen), at) }

// note notes that the client was found to stand so. Who is asked how it stands may find
// that before a flush does, which cannot look while a response waits for the transport.
func (ts *typeState) note(now standing, at stamp) {
	if now != ts.stands {
		ts.stands, ts.since = now, at
	}
}
