package fanout

import (
	"time"

	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/cache"
)

// After a reconnect the difference is sent with additions first and removals last, the removals in
// reverse order: listeners and routes, then endpoints, then clusters (E5). The client resumes its
// types one by one, so the relay may compare its clusters before it knows that the client has
// routes.
const (
	// resumeGrace is how long removals wait for a further type. A client subscribes to all its
	// types at once.
	resumeGrace = 250 * time.Millisecond
	// resumeLimit is how long removals wait in total.
	resumeLimit = 5 * time.Second
)

// keepsLocked reports whether removals of ts must wait: for types that may still refer to the
// removed resources (E2, E8), for claims to resources that do (K12), and, if ts is a supplier, for the
// rest of the difference that is due to a reconnected client (E5).
func (s *stream) keepsLocked(ts *typeState, now time.Time) bool {
	// In this order: a type that is answered during the first check is then behind in the later
	// ones.
	return ts.supplies() && (s.resumingLocked(ts, now) || s.movedLocked(now)) ||
		s.droppedLocked(ts.referredToBy, now) || s.anyBehindLocked(ts.referredToBy) || s.openLocked(ts.isOnlyFor, now)
}

// openLocked reports whether a client that has returned claims to have resources of a type of the kind
// that the table does not have, and that are still to be judged: if it keeps them, it keeps what they
// refer to. That is so for as long as the table counts as behind, or for [resumeLimit].
func (s *stream) openLocked(kind func(*typeState) bool, now time.Time) bool {
	if s.back == nil {
		return false
	}
	for _, ts := range s.types {
		if !ts.hasClaims() || !kind(ts) {
			continue
		}
		end := s.back.since.Add(resumeLimit)
		if until := ts.table.State(&ts.watcher).Behind.Until; until.After(end) {
			end = until
		}
		if end.After(now) {
			s.armLocked(end)
			return true
		}
	}
	return false
}

// droppedLocked reports whether the client unsubscribed from a resource of a type of the kind while
// the response that contains it was unanswered. If the client subscribes again before it reads that
// response, it uses the copy in there. A SotW client may do so after newer responses (B10), so this
// lasts until the client answers the newest response, or the time for its answer is over (B12).
func (s *stream) droppedLocked(kind func(*typeState) bool, now time.Time) bool {
	for _, ts := range s.types {
		if ts.Has(conversation.Crossed) && kind(ts) && s.isDueLocked(ts, now) {
			return true
		}
	}
	return false
}

// movedLocked reports whether a new stream to the control plane has not confirmed the routes yet.
// The stream may lead to another server.
func (s *stream) movedLocked(now time.Time) bool {
	for _, ts := range s.types {
		if !ts.depends() {
			continue
		}
		h := ts.table.State(&ts.watcher)
		if end := h.Unsettled.Add(resumeLimit); !h.IsEmpty() && end.After(now) {
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

// unsettledLocked reports whether content of a type must still be sent to the client, or the client
// must still answer.
func (s *stream) unsettledLocked(ts *typeState) bool {
	h := ts.table.State(&ts.watcher)
	if h.IsEmpty() {
		return false
	}
	waits := h.Answer == cache.Awaited || h.Held
	behind := h.Gen > ts.Sent.Gen || ts.Sent.Removed < ts.Sent.Gen || ts.Force != nil || ts.More
	return waits || ts.hasClaims() || behind && !ts.IsHeld() || ts.Unanswered()
}
