package fanout

import (
	"context"
	"math"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/trace"
)

// How far updates have come is told by the positions of clients alone: a position that
// moves over an update says that its client was sent it, or has answered. So nothing is
// kept for each client, and while no update is traced a send costs nothing more.

// sentLocked notes that a client was sent the updates between two positions.
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

// traced appends the traced updates between two positions to room. What came before
// the stream was no update for who came with nothing.
func (s *stream) traced(room []*trace.Update, ts *typeState, from, to uint64) []*trace.Update {
	var after time.Time
	if from == 0 {
		after = s.srv.timeOf(s.since)
	}
	return ts.table.Traced(room, &ts.watcher, from, to, after)
}

// acceptedLocked notes that a client has taken what is between two positions: for how
// long the oldest of it was on its way, and that it was taken. Who had nothing before
// does not count, since what it gets first may be of any age. It returns a context with
// the trace of that, for exemplars.
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
	if came := ts.table.Came(&ts.watcher, from, to); !came.IsZero() {
		ts.metrics.propagated(ctx, now.Sub(came))
	}
	return ctx
}

// refusedLocked notes that a client has rejected what is between two positions. It
// returns a context with the trace of that, for the log.
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

// leftLocked notes that a client will not be told what is between two positions.
func (s *stream) leftLocked(ts *typeState, from, to uint64) {
	if from >= to || !s.srv.cfg.Tracer.Live() {
		return
	}
	for _, u := range s.traced(nil, ts, from, to) {
		u.Left()
	}
}

// skipLocked notes that there was nothing to send on the way to b's position.
func (s *stream) skipLocked(ts *typeState, q cache.Query, b *body) {
	before := ts.Acked.Gen
	ts.skipped(q, b)
	s.leftLocked(ts, before, ts.Acked.Gen)
}

// everything stands for the newest generation.
const everything = math.MaxUint64

// newestLocked is the newest traced update that leads from one position to another; nil
// if there is none.
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
