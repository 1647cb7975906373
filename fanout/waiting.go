package fanout

import (
	"time"

	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/cache"
)

// waitingLocked returns the reason why a type waits, as the last flush has found it, and the type
// URL that it is ordered after. It costs nothing without queries: a flush sets a byte.
func (s *stream) waitingLocked(ts *typeState, h *cache.SubscriptionState) (why conversation.Reason, after string) {
	v := s.viewOf(ts, h)
	v.Due = ts.Due(h.Gen)
	switch why = ts.Wait; {
	case s.sending && (v.Due == conversation.ChangesDue || ts.Unanswered()): // no flush looks at the stream
		return conversation.Blocked, ""
	case ts.Unanswered() && (why == conversation.NothingNew || why == conversation.AwaitingAck):
		return conversation.AwaitingAck, ""
	case why == conversation.AwaitingAck: // the answer has arrived since
		return conversation.NothingNew, ""
	case why == conversation.NotSubscribed:
		return conversation.NothingNew, ""
	case why == conversation.Ordered:
		return why, s.orderedAfterLocked(ts)
	case why == conversation.NothingNew && ts.MayPace(&v) && s.isPacedLocked(ts, h, time.Now()): // it was not woken
		return conversation.Paced, ""
	}
	return why, ""
}

// orderedAfterLocked returns the URL of a type that must be sent or answered before ts. It is empty
// if that is over, or if ts waits for a type that the client may still subscribe to.
func (s *stream) orderedAfterLocked(ts *typeState) string {
	for _, o := range s.types {
		first := ts.referredToBy(o) || ts.depends() && o.supplies()
		if o != ts && first && (s.unsettledLocked(o) || o.Has(conversation.Crossed)) {
			return o.table.Type.URL
		}
	}
	return ""
}
