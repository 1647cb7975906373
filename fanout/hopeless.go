package fanout

import (
	"time"

	"xdsrelay/fanout/conversation"
)

// giveUpLocked reacts for a client that waits for an origin that cannot be
// reached, before it takes the silence for absence (K15): a stream that had no
// answer at all is ended, so that the client can fall back, and on others it is
// told an error for each name.
func (s *stream) giveUpLocked(now time.Time) {
	if !s.hopelessLocked() {
		s.hopeless = 0
		return
	}
	at := s.srv.stamp(now)
	if s.hopeless == 0 {
		s.hopeless = at
	}
	patience := s.srv.cfg.OriginTimeout
	if s.tier != nil {
		patience = peerPatience
	}
	if wait := patience - s.hopeless.before(at); wait > 0 {
		s.armLocked(now.Add(wait))
		return
	}
	if s.tier != nil {
		s.end(errNoOriginForPeer)
		return
	}
	if s.nonces == 0 {
		s.end(errNoOrigin)
		return
	}
	s.hopeless = at // for names that are asked for from now on
	s.armLocked(now.Add(s.srv.cfg.OriginTimeout))
	for _, ts := range s.types {
		if ts.Has(conversation.Unreachable) && s.takesErrors(ts) {
			ts.table.GiveUp(&ts.watcher)
		}
	}
}

// hopelessLocked reports whether something was asked for that is not known and
// that nobody can be asked about, and the client can be told so.
func (s *stream) hopelessLocked() bool {
	for _, ts := range s.types {
		if ts.Has(conversation.Unreachable) && (s.nonces == 0 || s.takesErrors(ts)) {
			return true
		}
	}
	return false
}

// takesErrors reports whether errors of the relay's own can be told: a full state
// without the name would read as its removal, and version 2 has none.
func (s *stream) takesErrors(ts *typeState) bool {
	return !s.v2 && (s.delta || !ts.table.Type.FullState)
}
