package fanout

import (
	"slices"
	"time"

	"xdsrelay/relay/cache"
)

// Client features that a client needs to be sent a TTL (F1). The last one is how the documentation
// spells the one before.
const (
	featureTTL      = "xds.config.supports-resource-ttl"
	featureWrapped  = "xds.config.resource-in-sotw"
	featureWrapped2 = "xds.config.supports-resource-in-sotw"
)

// takesTTLs reports whether a client with the features is sent lifetimes. On SotW a TTL needs a
// wrapper (F2), and a client without both features gets neither.
func (f form) takesTTLs(features []string) bool {
	return !f.v2 && slices.Contains(features, featureTTL) &&
		(f.delta || slices.Contains(features, featureWrapped) || slices.Contains(features, featureWrapped2))
}

// noted returns the newest note that a client may need: clients without TTLs ignore heartbeats, and
// those of version 2 ignore all notes (J3).
func (f form) noted(h *cache.SubscriptionState) uint64 {
	switch {
	case f.v2:
		return 0
	case f.timed:
		return max(h.Noted, h.Heartbeat)
	}
	return h.Noted
}

// ask completes a query with the form of the answer.
func (f form) ask(q cache.Query, h *cache.SubscriptionState, now time.Time) cache.Query {
	switch {
	case f.relay:
		q.Reader = cache.OtherNode
	case f.timed:
		q.Reader = cache.TTLClient
	case f.v2:
		q.Scope = q.Scope.Quiet()
	}
	if f.timed && !h.Expires.IsZero() {
		step := stepOf(h.Expires.Sub(now))
		// The end of the step, so that no client is sent more than the remaining lifetime (F3).
		q.At = now.Truncate(step).Add(step)
	}
	return q
}

// askLocked completes a query with the form and the limit of the answer, and what the client sees of the
// type.
func (s *stream) askLocked(ts *typeState, q cache.Query, h *cache.SubscriptionState, now time.Time) cache.Query {
	q = s.ask(q, h, now)
	q.View, q.Limit = s.seesLocked(ts), s.srv.bodyLimit()
	return q
}

// stepOf returns how long clients share a body with lifetimes: at most a second, and little
// compared to the shortest lifetime.
func stepOf(left time.Duration) time.Duration {
	step := time.Second
	for step > time.Millisecond && step > left/64 {
		step /= 10
	}
	return step
}

// notesLocked returns what the client is sent of a type whose newest response it rejected:
// heartbeats and errors. The rest is held (B14). If every response must have the full state,
// nothing can be sent.
func (s *stream) notesLocked(ts *typeState, h *cache.SubscriptionState, now time.Time) (q cache.Query, b *body) {
	if s.noted(h) <= ts.Sent.Noted || ts.scope(s.form) == cache.FullState {
		return q, nil
	}
	q = s.askLocked(ts, ts.Notes(), h, now)
	if b = s.bodyLocked(ts, h, &q); b.data == nil {
		ts.Sent.Noted = b.to.Noted
		return q, nil
	}
	return q, b
}
