package fanout

import (
	"context"
	"math"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/trace"
)

// The progress of updates is derived from the positions of clients: a position that moves past an
// update means that its client was sent the update, or has answered it. So no state is kept per
// client, and while no update is traced a send costs nothing more.

// sentLocked records that a client was sent the updates between two positions.
func (s *stream) sentLocked(ts *typeState, from, to uint64, now time.Time) {
	if from >= to || !s.srv.cfg.Tracer.Live() {
		return
	}
	var room [4]*trace.Update
	client := trace.Client{Ref: ts, ID: s.nodeID, Variant: s.variant().Value.AsString(), Peer: s.tier != nil}
	if s.tier != nil {
		client.ID = s.tier.node
	}
	for _, u := range s.traced(room[:0], ts, from, to) {
		u.Sent(client, now)
	}
}

// traced appends the traced updates between two positions to room. For a client that holds nothing,
// content from before the stream is not an update.
func (s *stream) traced(room []*trace.Update, ts *typeState, from, to uint64) []*trace.Update {
	var after time.Time
	if from == 0 {
		after = s.srv.timeOf(s.since)
	}
	return ts.table.TracedSince(room, &ts.watcher, from, to, after)
}

// acceptedLocked records that a client has acknowledged the updates between two positions, and the
// propagation time of the oldest one. That time does not count for a client that had nothing, since
// its first content may be of any age. It returns a context with the trace of these updates, for
// exemplars.
func (s *stream) acceptedLocked(ts *typeState, from, to uint64, now time.Time) context.Context {
	ctx := context.Background()
	if from >= to {
		return ctx
	}
	if s.srv.cfg.Tracer.Live() {
		var room [4]*trace.Update
		updates := s.traced(room[:0], ts, from, to)
		if len(updates) > 0 {
			ctx = updates[0].Context()
		}
		for _, u := range updates {
			u.Answered(ts, true, "", now)
		}
	}
	if from == 0 {
		return ctx
	}
	if came := ts.table.ArrivedAt(&ts.watcher, from, to); !came.IsZero() {
		ts.metrics.propagated(ctx, now.Sub(came))
	}
	return ctx
}

// refusedLocked records that a client has rejected the updates between two positions. It returns a
// context with their trace, for the log.
func (s *stream) refusedLocked(ts *typeState, from, to uint64, why string, now time.Time) context.Context {
	ctx := context.Background()
	if !s.srv.cfg.Tracer.Live() {
		return ctx
	}
	updates := s.traced(nil, ts, from, to)
	if len(updates) > 0 {
		ctx = updates[0].Context()
	}
	for _, u := range updates {
		u.Answered(ts, false, why, now)
	}
	return ctx
}

// leftLocked records that a client will not be sent the updates between two positions.
func (s *stream) leftLocked(ts *typeState, from, to uint64) {
	if from >= to || !s.srv.cfg.Tracer.Live() {
		return
	}
	for _, u := range s.traced(nil, ts, from, to) {
		u.Left()
	}
}

// skipLocked moves to b's position, which the client reaches without a response.
func (s *stream) skipLocked(ts *typeState, q cache.Query, b *body) {
	before := ts.Acked.Gen
	ts.skipped(q, b)
	s.leftLocked(ts, before, ts.Acked.Gen)
}

// everything is a position after all generations.
const everything = math.MaxUint64

// newestLocked returns the newest traced update between two positions; nil if there is none.
func (s *stream) newestLocked(ts *typeState, from cache.Position, to uint64) *trace.Update {
	if !s.srv.cfg.Tracer.Live() {
		return nil
	}
	all := s.traced(nil, ts, from.Gen, to)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}
