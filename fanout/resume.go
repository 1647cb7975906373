package fanout

import (
	"time"

	"xdsrelay/fanout/conversation"
)

// After a reconnect the difference goes out with additions first and removals
// last, in reverse order: listeners and routes, then endpoints, then clusters
// (E5). The client's types come back one by one, so its clusters may be compared
// before anybody knows that there are routes.
const (
	// resumeGrace is how long removals wait for a further type. A client asks
	// for all that it wants at once.
	resumeGrace = 250 * time.Millisecond
	// resumeLimit is how long they wait altogether.
	resumeLimit = 5 * time.Second
)

// keepsLocked reports whether removals of ts have to wait: for what may still
// refer to what is removed (E2, E8) and, where it is a supplier, for the rest of
// what a client has to be told that came back (E5).
func (s *stream) keepsLocked(ts *typeState, now time.Time) bool {
	// In this order: what is answered while we look is then behind.
	return ts.supplies() && (s.resumingLocked(ts, now) || s.movedLocked(now)) ||
		s.droppedLocked(ts.referredToBy, now) || s.anyBehindLocked(ts.referredToBy)
}

// droppedLocked reports whether the client has dropped something of a type of the kind
// before it answered the response with it. If it asks for that again before it reads
// the response, it takes what stands there. A SotW client may do so after newer
// responses (B10), so what counts is that the newest is answered; or never (B12).
func (s *stream) droppedLocked(kind func(*typeState) bool, now time.Time) bool {
	for _, ts := range s.types {
		if ts.Has(conversation.Crossed) && kind(ts) && s.isDueLocked(ts, now) {
			return true
		}
	}
	return false
}

// movedLocked reports whether a new stream to the origin, which may be another
// one, has not said yet what routes there are.
func (s *stream) movedLocked(now time.Time) bool {
	for _, ts := range s.types {
		if !ts.depends() {
			continue
		}
		h := ts.table.State(&ts.watcher)
		if end := h.Unsettled.Add(resumeLimit); (h.Names > 0 || h.Wildcard) && end.After(now) {
			s.armLocked(end)
			return true
		}
	}
	return false
}

func (s *stream) resumingLocked(ts *typeState, now time.Time) bool {
	if s.only != nil || s.back == nil {
		return false
	}
	end := s.back.since.Add(resumeLimit)
	if !end.After(now) {
		return false
	}
	for _, o := range s.types {
		later := o.depends() || o.supplies() && o.table.Type.Order > ts.table.Type.Order
		if later && s.unsettledLocked(o) {
			s.armLocked(end)
			return true
		}
	}
	if grace := s.back.asked.Add(resumeGrace); grace.After(now) {
		s.armLocked(grace)
		return true
	}
	return false
}

// unsettledLocked reports whether the client has yet to be told something of a
// type, or to answer.
func (s *stream) unsettledLocked(ts *typeState) bool {
	h := ts.table.State(&ts.watcher)
	if h.Names == 0 && !h.Wildcard {
		return false
	}
	waits := !h.Known && !h.Unreachable || h.Held
	behind := h.Gen > ts.Sent.Gen || ts.Sent.Removed < ts.Sent.Gen || ts.Force != nil || ts.More
	return waits || ts.hasClaims() || behind && !ts.IsHeld() || ts.Unanswered()
}
