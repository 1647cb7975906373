package fanout

import (
	"time"

	"xdsrelay/fanout/conversation"
	"xdsrelay/fanout/transport"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// Positions in the order E1: clusters and endpoints come before the listeners and routes that
// depend on them.
const (
	lastSupplier  = 2 // CDS, EDS, LEDS
	lastDependent = 6 // LDS, SRDS, RDS, VHDS
)

func (ts *typeState) supplies() bool { return ts.table.Type.Order <= lastSupplier }
func (ts *typeState) depends() bool {
	return !ts.supplies() && ts.table.Type.Order <= lastDependent
}

// onDemand reports whether clients subscribe to names of the type while a request waits for them
// (E7).
func (ts *typeState) onDemand() bool {
	switch ts.table.Type.URL {
	case resource.VirtualHostURL, resource.ClusterURL, resource.VirtualHostV2URL, resource.ClusterV2URL:
		return true
	}
	return false
}

// referredToBy reports whether resources of another type may refer to resources of this type, so
// that a removal must wait for the changes of o: routes lead to clusters (E2), listeners to routes,
// and any type of E1 to a secret or to the configuration of a filter (E8).
func (ts *typeState) referredToBy(o *typeState) bool {
	of := o.table.Type.Order
	switch {
	case ts.supplies():
		return o.depends()
	case ts.depends():
		return of > lastSupplier && of < ts.table.Type.Order
	default:
		return of <= lastDependent
	}
}

// isOnlyFor reports whether resources of this type may be of use to nothing but resources of o, which
// comes before it in the order E1: endpoints to clusters, and routes to listeners.
func (ts *typeState) isOnlyFor(o *typeState) bool {
	return !ts.supplies() && ts.referredToBy(o) || o.table.Type.EndpointType == ts.table.Type.URL
}

// Flush sends the client the changes that may be sent now. It never waits for the stream, because
// the other streams of the pool would wait, too. If the stream is locked, one goroutine waits for
// it and then sends the newest content.
func (s *stream) Flush() {
	if s.mu.TryLock() {
		s.flushAndUnlock()
		return
	}
	if s.waiting.CompareAndSwap(false, true) {
		go func() {
			s.mu.Lock()
			s.waiting.Store(false) // before the flush: the flush may miss changes from now on
			s.flushAndUnlock()
		}()
	}
}

func (s *stream) flushAndUnlock() {
	defer s.unlock()
	s.flushLocked()
}

// flushLocked sends what is due while the transport has room. Otherwise Writable flushes again.
func (s *stream) flushLocked() {
	for !s.sending && !s.ended {
		ts, q, b := s.nextLocked(time.Now())
		if ts == nil {
			s.giveUpLocked(time.Now())
			s.waitsChangedLocked()
			return
		}
		unanswered, now := s.unacked, time.Now()
		if s.sending = !s.call.Send(s.commitLocked(ts, q, b, now), unanswered); s.sending {
			s.waitChangedLocked(ts, conversation.Blocked, now)
		}
		ts.metrics.busy.Add(int64(time.Since(now)))
	}
}

// Writable implements [transport.Client].
func (s *stream) Writable() {
	s.mu.Lock()
	defer s.unlock()
	s.sending = false
	s.flushLocked()
}

// commitLocked records that b is sent to the client, and completes b.
func (s *stream) commitLocked(ts *typeState, q cache.Query, b *body, moment time.Time) *transport.Message {
	before := ts.Sent
	s.nonces++ // B5: one sequence for all types of the stream
	m := newMessage(b.data, s.nonces)
	if whole := m.Size(); whole > s.srv.cfg.MaxSendBytes {
		s.srv.oversizeLocked(s, ts, whole) // clients bound the size after decompression, too
	}
	saved := s.compress(m, b)
	if b.only != nil {
		s.srv.bodies.Drop(b.only.key, b.only.slot)
	}
	size := m.Size()
	now := s.srv.stamp(moment)
	if ts.Has(conversation.Crossed) && !s.isDueLocked(ts, moment) {
		ts.AckTimeout()
	}
	ts.committed(q, b, s.nonces, size, now)
	if b.exposure != NotExposed || s.candidate.IsPromoted(ts.table) {
		ts.exposure = Exposed
	}
	if len(b.failed) > 0 {
		ts.disclaim(b.failed, false) // only the resource replaces the error (D15)
	}
	ts.Wait = conversation.AwaitingAck
	ts.observe(now)
	if s.tier != nil {
		s.markLocked(ts, q, b, m, before)
	}
	s.sentLocked(ts, before.Gen, ts.Sent.Gen, moment)
	s.sentEventLocked(ts, b, moment)
	s.unacked += size
	ts.metrics.sent(size, saved)
	if b.endpoints != nil && s.tier == nil { // E3
		eds := s.findLocked(ts.table.Type.EndpointType)
		switch {
		case eds == nil && ts.wasCompared():
			// The client is about to subscribe to them, and may hold them already.
			s.warming = s.warming.With(b.endpoints)
		case eds != nil && (eds.Sent != cache.Start || eds.hasClaims()):
			eds.Resend = eds.Resend.With(b.endpoints)
		}
	}
	return m
}

// nextLocked returns the next response to send: of the first type in the order E1 that has changes
// which may be sent.
func (s *stream) nextLocked(now time.Time) (*typeState, cache.Query, *body) {
	for {
		// The types whose removals were held back, and whose changes must not overtake others.
		var kept, ordered uint64
		for i, ts := range s.types {
			q, b := s.pendingLocked(ts, now)
			switch {
			case b == nil:
				ts.observe(s.srv.stamp(now))
				if q.KeepRemoved {
					kept |= 1 << i
				}
			case ts.depends() && b.kind == ofContent && s.anyBehindLocked((*typeState).supplies):
				// E2: a change must not overtake an earlier one. A type that was looked at before
				// can be behind only if it waits for an ACK or changed just now; either causes
				// another flush.
				if s.tier != nil {
					ts.Wait = conversation.Ordered
					continue
				}
				if q, b := s.demandedLocked(ts); b != nil {
					return ts, q, b
				}
				ts.Wait = conversation.Ordered
				ordered |= 1 << i
			default:
				return ts, q, b
			}
		}
		if !s.awaitLocked(kept, ordered) && !s.anyFreeLocked(kept, now) {
			return nil, cache.Query{}, nil
		}
		// Others wait for changes that would have waited for the end of an interval, or removals were
		// held back for types that turned out to have no changes.
	}
}

// anyFreeLocked reports whether the removals of one of the types need not be held back any longer.
func (s *stream) anyFreeLocked(kept uint64, now time.Time) bool {
	for i, ts := range s.types {
		if kept&(1<<i) != 0 && !s.keepsLocked(ts, now) {
			return true
		}
	}
	return false
}
