package fanout

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"xdsrelay/fanout/limit"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// stream is one client's stream: all types on ADS, one type on its own service.
type stream struct {
	caller

	// Fixed after construction.
	srv   *Server
	grpc  grpc.ServerStream
	only  *resource.Type // nil on ADS
	since stamp
	form  // but for timed
	// sharesSecrets says with all clients of the key. It is set as those below, and
	// here because there is room.
	sharesSecrets bool
	fields        uint16   // of the Node that are in node, bits by number; set likewise
	tier          *peering // of another node; nil for a client; fixed

	// Set by the handler goroutine with the first request, before anybody
	// else knows the stream, as is timed.
	group               *cache.Group
	node, cluster, rule string // the first as identity has it
	wire                *wire  // of a client that takes gzip; nil for others

	// Owned by the handler goroutine.
	in     request
	tokens limit.Tokens
	why    *Reason // of the request, if that is a NACK: made before mu is locked

	mu sync.Mutex
	// Guarded by mu.
	types   []*typeState // in the order E1
	own     *ownGroups   // nil unless a type needs it
	nonces  uint64
	unacked int         // bytes of responses that are not acknowledged
	sending bool        // a goroutine is in a send that may block
	ended   bool        // the handler has returned
	waiting atomic.Bool // a goroutine waits for mu to flush; not guarded by it
	after   func()      // what is left to be done when mu is unlocked; see laterLocked
	alarm   *time.Timer // see armLocked
	alarmAt time.Time
	// hopeless is since when the client has waited in vain; see giveUpLocked.
	hopeless stamp
	arrival  limit.Arrival // while it is not in sync; see inSyncLocked
	// warming are the endpoints of clusters that a returning delta client was
	// sent before it asked for endpoints (E3).
	warming *cache.Names
	back    *comeback // nil for a client that came with nothing

	senders sync.WaitGroup // see sendSlowly
}

// handle serves one stream until the client ends it or a reason is found to.
func (s *Server) handle(gs grpc.ServerStream, only *resource.Type, f form) error {
	st := &stream{srv: s, grpc: gs, only: only, form: f, since: s.stamp(time.Now())}
	return st.serve()
}

// serve is handle once there is a stream.
func (s *stream) serve() (err error) {
	p, err := s.attach(s.grpc.Context())
	if err != nil {
		return err
	}
	if err := s.srv.admit(s, p); err != nil {
		return s.srv.notAdmitted(s.grpc.Context(), &s.caller, err)
	}
	defer func() {
		s.pause(err)
		s.end(err) // before waiting for a send that may block
		s.srv.remove(s)
		s.srv.leave(s)
	}()

	if s.tier == nil {
		s.awaitFirst()
	}
	for first := true; ; first = false {
		next := awaited{tier: s.tier, first: first, node: resource.NodeNumber(s.delta), by: p}
		if over, err := s.srv.receive(&s.caller, &s.in, next); over {
			return err
		}
		size := s.in.size()
		if !first {
			s.taken(size)
		}
		if err := s.take(p); err != nil {
			return s.srv.refused(&s.caller, err)
		}
		if s.tier == nil {
			s.srv.hold(s.grpc.Context(), &s.caller, &s.tokens, size)
		}
	}
}

// take takes the request in that has come, of a client that p tells of.
func (s *stream) take(p *peer.Peer) error {
	defer s.in.free()
	var r resource.Request
	s.srv.metrics.received(s.form, s.in.size())
	if s.tier == nil {
		if err := s.checkCounts(s.in.bytes()); err != nil {
			return err
		}
	}
	if s.group == nil {
		node, err := resource.NodeOf(s.delta, s.in.bytes())
		if err != nil {
			return malformed(err)
		}
		if err := s.identify(node, p); err != nil {
			return err
		}
	}
	if err := s.in.decode(s.delta, &r); err != nil {
		return err
	}
	return s.receive(&r)
}

// receive applies a request and sends what it makes due.
func (s *stream) receive(r *resource.Request) error {
	t, err := s.typeOf(r.TypeURL)
	if err != nil {
		return err
	}
	if s.v2 {
		r.Locators, r.Located = nil, false // fields that it does not have
	}
	if r.Located && !s.delta && t.FullState { // G9
		return refuseWhole()
	}
	if s.tier == nil {
		if err := s.checkRequest(r); err != nil {
			return err
		}
	}
	if !s.delta && t.DeltaOnly() {
		return nil // D8: there is no SotW form to answer with
	}
	if s.why = nil; r.Rejected {
		s.why = NewReason(r.ErrorCode, r.ErrorMessage)
	}
	return s.apply(t, r)
}

// apply applies a request for a type that has been checked, and flushes.
func (s *stream) apply(t *resource.Type, r *resource.Request) error {
	s.mu.Lock()
	defer s.unlock()
	ts, initial, err := s.stateLocked(t)
	if ts == nil {
		return err
	}
	var answer verdict
	counts := true
	if s.delta {
		answer, err = s.applyDeltaLocked(ts, r, initial)
	} else {
		answer, counts, err = s.applySotWLocked(ts, r, initial)
	}
	if err != nil {
		return malformed(err)
	}
	if s.tier != nil {
		if err := s.askedByPeerLocked(ts, r); err != nil {
			return err
		}
	}
	if counts {
		s.refuseLocatorsLocked(ts, r, answer)
	}
	if s.tier == nil && r.Names.Len()+r.Subscribe.Len()+r.Unsubscribe.Len() > 0 {
		if err := s.checkNamesLocked(); err != nil {
			return err
		}
	}
	if s.tier == nil && len(r.Held) > 0 {
		if err := s.checkHeldLocked(); err != nil {
			return err
		}
	}
	s.flushLocked()
	if s.nonces == 0 {
		s.inSyncLocked() // as far as this node goes: there is nothing yet
	}
	return nil
}

// stateLocked returns the state for t, made on the first request for it. It is nil
// where another node asks for a type too many: what one of its clients asks for must
// not end the stream that all of its clients of the key live on, so it hears nothing.
func (s *stream) stateLocked(t *resource.Type) (ts *typeState, initial bool, err error) {
	if ts := s.findLocked(t.URL); ts != nil {
		return ts, false, nil
	}
	group, private := s.groupLocked(t)
	if err = s.checkTypesLocked(t); err == nil {
		err = s.checkRoom(group, t)
	}
	switch {
	case err != nil && s.tier != nil:
		if limited, ok := errors.AsType[*limit.Refusal](err); ok {
			s.laterLocked(limited.Log)
		}
		return nil, false, nil // it has been counted
	case err != nil:
		return nil, false, err
	}
	ts = &typeState{
		table: group.Table(t), private: private, metrics: s.srv.metrics.of(t, s.form),
	}
	ts.Sent, ts.Acked = cache.Start, cache.Start
	ts.watcher.Client = s
	if s.back != nil {
		s.back.asked = time.Now()
	}
	i := slices.IndexFunc(s.types, func(o *typeState) bool { return o.table.Type.Order > t.Order })
	if i < 0 {
		i = len(s.types)
	}
	s.types = slices.Insert(s.types, i, ts)
	return ts, true, nil
}

// laterLocked has f called once mu is unlocked. Whatever may take long belongs there, such
// as to write a line of the log: flushes wait for mu.
func (s *stream) laterLocked(f func()) {
	before := s.after
	if before == nil {
		s.after = f
		return
	}
	s.after = func() { before(); f() }
}

// unlock unlocks mu and does what was left for then.
func (s *stream) unlock() {
	after := s.after
	s.after = nil
	s.mu.Unlock()
	if after != nil {
		after()
	}
}

func (s *stream) findLocked(url string) *typeState {
	for _, ts := range s.types {
		if ts.table.Type.URL == url {
			return ts
		}
	}
	return nil
}

// close frees what an ended stream held. When it returns, nobody sends any more.
func (s *stream) close() {
	s.mu.Lock()
	s.ended = true
	s.disarmLocked()
	for _, ts := range s.types {
		s.leftLocked(ts, ts.Acked.Gen, everything)
	}
	types, group, own := s.types, s.group, s.own
	s.mu.Unlock()
	s.senders.Wait()
	for _, ts := range types {
		ts.table.Leave(&ts.watcher)
	}
	switch {
	case s.tier != nil && group != nil:
		s.srv.cfg.Cache.LeavePeer(group)
		return
	case own != nil:
		own.leave(s.srv.cfg.Cache)
	}
	if group != nil {
		s.srv.cfg.Cache.Leave(group)
	}
}
