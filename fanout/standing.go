package fanout

import (
	"time"

	"xdsrelay/fanout/conversation"
)

// stamp is a time in nanoseconds after the server was created; 0 means never. It takes a third of
// the memory of a time.Time, for each client and type.
type stamp int64

func (s *Server) stamp(t time.Time) stamp { return stamp(t.Sub(s.began)) + 1 }

func (s *Server) timeOf(at stamp) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return s.began.Add(time.Duration(at - 1))
}

// before returns the duration between at and a later time.
func (at stamp) before(later stamp) time.Duration { return time.Duration(later - at) }

// standing is a [State] in a byte. The zero value means that the state is not known any longer.
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

// standing returns the state of the client if head is the newest generation that it should see.
func (ts *typeState) standing(head uint64) standing {
	switch {
	case ts.IsRejected():
		return standsNacked
	case ts.Nonce == 0 && ts.Sent.Gen == 0 && !ts.Has(conversation.Proven):
		if ts.isUncompared() || ts.claimsVersion() {
			return standsUnknown
		}
		return standsNotSent
	case ts.Unanswered() || head > ts.Sent.Gen || ts.Force != nil:
		return standsStale
	}
	return standsSynced
}

// observe records since when the client is in its state. It is called after a flush has looked at
// the type, so a change is recorded as soon as it could matter. ts.seen is the generation that the
// flush has seen, which saves another look at the table.
func (ts *typeState) observe(at stamp) { ts.note(ts.standing(ts.seen), at) }

// note records that the client was found in a state. A status query may find a state before a flush
// does, because no flush looks at the type while a response waits for the transport.
func (ts *typeState) note(now standing, at stamp) {
	if now != ts.stands {
		ts.stands, ts.since = now, at
	}
}
