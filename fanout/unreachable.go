package fanout

import (
	"time"

	"xdsrelay/fanout/conversation"
)

// giveUpLocked acts for a client that waits for a control plane that is unreachable, before the
// client takes the silence for absence (K15). It ends a stream that had no response at all, so that
// the client can fall back. On other streams it sends an error for each name.
func (s *stream) giveUpLocked(now time.Time) {
	if !s.awaitsUnreachableLocked() {
		s.unreachableSince = 0
		return
	}
	at := s.srv.stamp(now)
	if s.unreachableSince == 0 {
		s.unreachableSince = at
	}
	patience := s.srv.cfg.OriginTimeout
	if s.tier != nil {
		patience = peerPatience
	}
	if wait := patience - s.unreachableSince.before(at); wait > 0 {
		s.armLocked(now.Add(wait))
		return
	}
	if s.tier != nil {
		s.call.End(errNoOriginForPeer)
		return
	}
	if s.nonces == 0 {
		s.call.End(errNoOrigin)
		return
	}
	s.unreachableSince = at // the wait begins again, for names that are requested from now on
	s.armLocked(now.Add(s.srv.cfg.OriginTimeout))
	for _, ts := range s.types {
		if ts.Has(conversation.Unreachable) && s.takesErrors(ts) {
			ts.table.GiveUp(&ts.watcher)
		}
	}
}

// awaitsUnreachableLocked reports whether the client requested content that is unknown while the
// control plane is unreachable, and an error can be sent for it.
func (s *stream) awaitsUnreachableLocked() bool {
	for _, ts := range s.types {
		if ts.Has(conversation.Unreachable) && (s.nonces == 0 || s.takesErrors(ts)) {
			return true
		}
	}
	return false
}

// takesErrors reports whether the relay can send errors of its own. A full state without the name
// would read as the name's removal, and version 2 has no errors.
func (s *stream) takesErrors(ts *typeState) bool {
	return !s.v2 && (s.delta || !ts.table.Type.FullState)
}
