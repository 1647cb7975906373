package fanout

import (
	"time"

	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// inlineBudget is how many unacknowledged bytes the transport takes before a
// send may block: grpc-go's write quota of a stream.
const inlineBudget = 64 << 10

// frameHeader is what gRPC puts before each message, which its quota counts.
const frameHeader = 5

// Places in the order E1: clusters and endpoints are supplied before the
// listeners and routes that depend on them.
const (
	lastSupplier  = 2 // CDS, EDS, LEDS
	lastDependent = 6 // LDS, SRDS, RDS, VHDS
)

func (ts *typeState) supplies() bool { return ts.table.Type.Order <= lastSupplier }
func (ts *typeState) depends() bool {
	return !ts.supplies() && ts.table.Type.Order <= lastDependent
}

// onDemand reports whether clients ask for names of the type while a request
// waits for them (E7).
func (ts *typeState) onDemand() bool {
	switch ts.table.Type.URL {
	case resource.VirtualHostURL, resource.ClusterURL, resource.VirtualHostV2URL, resource.ClusterV2URL:
		return true
	}
	return false
}

// referredToBy reports whether resources of another type may refer to those of
// this one, so that a removal has to wait for what o has to say: routes lead to
// clusters (E2), listeners to routes, and anything of E1 to a secret or a
// filter's configuration (E8).
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

// Flush sends the client its news, as far as it may be sent now. It never waits for the
// stream, for the sake of the other streams of the pool: if the stream is locked, one
// goroutine waits in its place, which sends what is newest then.
func (s *stream) Flush() {
	if s.mu.TryLock() {
		s.flushAndUnlock()
		return
	}
	if s.waiting.CompareAndSwap(false, true) {
		go func() {
			s.mu.Lock()
			s.waiting.Store(false) // before the flush: it may miss what comes from now on
			s.flushAndUnlock()
		}()
	}
}

func (s *stream) flushAndUnlock() {
	defer s.unlock()
	s.flushLocked()
}

// flushLocked sends inline while that cannot block, and leaves the rest to a
// goroutine of its own, which flushes again when it is done.
func (s *stream) flushLocked() {
	for !s.sending && !s.ended {
		ts, q, b := s.nextLocked(time.Now())
		if ts == nil {
			s.giveUpLocked(time.Now())
			return
		}
		room, now := s.unacked < inlineBudget, time.Now()
		f := s.commitLocked(ts, q, b, now)
		if !room {
			s.sending = true
			s.senders.Go(func() { s.sendSlowly(f) })
			return
		}
		err := s.send(f)
		ts.metrics.busy.Add(int64(time.Since(now)))
		if err != nil {
			s.failLocked(err)
		}
	}
}

// sendSlowly sends f, which may block, and ends the stream if the client does
// not make room in time.
func (s *stream) sendSlowly(f *frame) {
	deadline := time.AfterFunc(s.srv.cfg.SendTimeout, func() {
		s.srv.metrics.sendTimeout()
		s.end(errSendDeadline)
	})
	err := s.send(f)
	deadline.Stop()
	s.mu.Lock()
	defer s.unlock()
	s.sending = false
	if err != nil {
		s.failLocked(err)
		return
	}
	s.flushLocked()
}

// failLocked ends the stream after a send that failed. Mostly the handler is
// about to learn the reason itself, and then this is not the first cause.
func (s *stream) failLocked(err error) {
	s.ended = true
	s.end(err)
}

// commitLocked notes that b is sent to the client and completes it.
func (s *stream) commitLocked(ts *typeState, q cache.Query, b *body, moment time.Time) *frame {
	before := ts.Sent
	s.nonces++ // B5: one sequence for all types of the stream
	f := newFrame(b.data, s.nonces)
	if whole := f.size(); whole > s.srv.cfg.MaxSendBytes {
		s.srv.oversizeLocked(s, ts, whole) // clients bound what they inflate, too
	}
	saved := s.compress(f, b)
	size := f.size()
	now := s.srv.stamp(moment)
	if ts.Has(conversation.Crossed) && !s.isDueLocked(ts, moment) {
		ts.AckTimeout()
	}
	ts.committed(q, b, s.nonces, size, now)
	if len(b.failed) > 0 {
		ts.disclaim(b.failed, false) // only the resource takes the error back (D15)
	}
	ts.Wait = conversation.AwaitingAck
	ts.observe(now)
	if s.tier != nil {
		s.markLocked(ts, q, b, f, before)
	}
	s.sentLocked(ts, before.Gen, ts.Sent.Gen, moment)
	s.unacked += size
	ts.metrics.sent(size, saved)
	if b.endpoints != nil && s.tier == nil { // E3
		eds := s.findLocked(ts.table.Type.EndpointType)
		switch {
		case eds == nil && ts.wasCompared():
			// It is about to ask, and may hold them already.
			s.warming = s.warming.With(b.endpoints)
		case eds != nil && (eds.Sent != cache.Start || eds.hasClaims()):
			eds.Resend = eds.Resend.With(b.endpoints)
		}
	}
	return f
}

// nextLocked finds the next response to send: the first type in the order E1
// that has news and may send it.
func (s *stream) nextLocked(now time.Time) (*typeState, cache.Query, *body) {
	for {
		var kept uint64 // the types whose removals were held back
		for i, ts := range s.types {
			q, b := s.pendingLocked(ts, now)
			switch {
			case b == nil:
				ts.observe(s.srv.stamp(now))
				if q.KeepRemoved {
					kept |= 1 << i
				}
			case ts.depends() && !b.aside && s.anyBehindLocked((*typeState).supplies):
				// E2: a change that came earlier must not be overtaken. What
				// was looked at first can be behind only if it waits for an
				// ACK or changed just now; either will bring us back.
				if s.tier != nil {
					ts.Wait = conversation.Ordered
					continue
				}
				if q, b := s.demandedLocked(ts); b != nil {
					return ts, q, b
				}
				ts.Wait = conversation.Ordered
			default:
				return ts, q, b
			}
		}
		if !s.anyFreeLocked(kept, now) {
			return nil, cache.Query{}, nil
		}
		// Removals were held back for types that turned out to have no news.
	}
}

// anyFreeLocked reports whether the removals of one of the types need not be
// held back any more.
func (s *stream) anyFreeLocked(kept uint64, now time.Time) bool {
	for i, ts := range s.types {
		if kept&(1<<i) != 0 && !s.keepsLocked(ts, now) {
			return true
		}
	}
	return false
}
