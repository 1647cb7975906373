package fanout

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"xdsrelay/fanout/journal"
	"xdsrelay/fanout/limit"
	"xdsrelay/fanout/transport"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/lockorder"
	"xdsrelay/relay/resource"
)

// stream is a client's stream: all types on ADS, one type on its own service. It is the
// [transport.Client] of its call.
type stream struct {
	caller

	// Fixed after construction.
	srv   *Server
	only  *resource.Type // nil on ADS
	since stamp
	form  // except timed
	// sharesSecrets means that secrets are shared with all clients of the key. It is set like the
	// fields below, and is here because there is room.
	sharesSecrets bool
	fields        uint16   // of the Node, kept in node, as bits by number; set like the fields below
	tier          *peering // for a stream of another node; nil for a client; fixed

	// Set with the first request, before other goroutines know the stream, like timed.
	group               *cache.Group
	node, cluster, rule string // node is that of identity

	// Owned by the goroutine that processes requests.
	tokens limit.Tokens
	why    *Reason // of the request, if that is a NACK: made before mu is locked

	mu lockorder.Mutex[lockorder.Stream]
	// Guarded by mu.
	types   []*typeState // in the order E1
	own     *ownGroups   // nil unless a type needs it
	nonces  uint64
	unacked int         // bytes of unacknowledged responses
	sending bool        // the call has not been writable since the newest response
	ended   bool        // nothing is sent any more
	gzip    bool        // the client accepts compressed responses; set with the first request
	waiting atomic.Bool // a goroutine waits for mu to flush; not guarded by mu
	after   func()      // called after mu is unlocked; see laterLocked
	alarm   *time.Timer // see armLocked
	alarmAt stamp
	// unreachableSince is the time since which the client waits for content that cannot come; see
	// giveUpLocked.
	unreachableSince stamp
	arrival          limit.Arrival // until it is in sync; see inSyncLocked
	// ruled has the number of RulesChanged calls before the last comparison of the stream's key with
	// the rules, and its result; not guarded by mu. See former.go.
	ruled atomic.Uint32
	// warming are the endpoints of clusters that a reconnecting delta client was sent before it
	// subscribed to endpoints (E3).
	warming *cache.Names
	back    *comeback // nil for a client that holds nothing
	journal journal.Journal
	// candidate is what the client sees instead of the tables' content; nil for most clients.
	candidate *cache.Candidate
}

// open admits the stream of a call.
func (s *Server) open(st *stream) (transport.Client, error) {
	if err := s.admit(st); err != nil {
		return nil, s.notAdmitted(err)
	}
	if st.tier == nil {
		st.awaitFirst()
	}
	return st, nil
}

// opens returns what makes a stream of each call of a method: for one type, or for all if only is
// nil.
func (s *Server) opens(only *resource.Type, f form) transport.Open {
	return func(call transport.Call) (transport.Client, error) {
		return s.open(&stream{caller: callerOf(call), srv: s, only: only, form: f, since: s.stamp(time.Now())})
	}
}

// Begin implements [transport.Client].
func (s *stream) Begin(b []byte, size int) error {
	if s.tier != nil {
		return nil
	}
	if err := s.srv.authorizeEarly(&s.caller, b, size, resource.NodeNumber(s.delta)); err != nil {
		return s.srv.refused(&s.caller, err)
	}
	return nil
}

// Request implements [transport.Client].
func (s *stream) Request(b []byte) (pause time.Duration, err error) {
	if err := s.take(b); err != nil {
		return s.stop(s.srv.refused(&s.caller, err))
	}
	if s.tier != nil {
		return 0, nil
	}
	return s.srv.throttle(&s.caller, &s.tokens, len(b)), nil
}

// NoMoreRequests implements [transport.Client].
func (s *stream) NoMoreRequests(err error) (pause time.Duration, reason error) {
	return s.stop(s.srv.ended(&s.caller, err))
}

// Closed implements [transport.Client].
func (s *stream) Closed() {
	s.srv.remove(s)
	s.srv.leave(s)
}

// take processes the encoded request b.
func (s *stream) take(b []byte) error {
	var r resource.Request
	s.srv.metrics.received(s.form, len(b))
	if s.tier == nil {
		if err := s.checkCounts(b); err != nil {
			return err
		}
	}
	if s.group == nil {
		node, err := resource.NodeOf(s.delta, b)
		if err != nil {
			return malformed(err)
		}
		if err := s.identify(node); err != nil {
			return err
		}
	}
	if err := decode(b, s.delta, &r); err != nil {
		return err
	}
	return s.receive(&r)
}

// decode decodes a request of one variant. The result is valid while b is.
func decode(b []byte, delta bool, to *resource.Request) (err error) {
	if delta {
		err = resource.DecodeDeltaRequest(b, to)
	} else {
		err = resource.DecodeSotWRequest(b, to)
	}
	if err != nil {
		return malformed(err)
	}
	return nil
}

// receive applies a request and sends what became due.
func (s *stream) receive(r *resource.Request) error {
	t, err := s.typeOf(r.TypeURL)
	if err != nil {
		return err
	}
	if s.v2 {
		r.Locators, r.Located = nil, false // version 2 does not have these fields
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

// apply applies a checked request for a type, and flushes.
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
	if r.Rejected {
		s.hurryLocked(ts)
	}
	if s.tier == nil && r.Names.Len()+r.Subscribe.Len()+r.Unsubscribe.Len() > 0 {
		if err := s.checkNamesLocked(); err != nil {
			return err
		}
	}
	if s.tier == nil && r.Held.Len() > 0 {
		if err := s.checkHeldLocked(); err != nil {
			return err
		}
	}
	s.flushLocked()
	if s.nonces == 0 {
		s.inSyncLocked() // in sync as far as this node knows: there is no content yet
	}
	return nil
}

// stateLocked returns the state for t, made on the first request for it. It is nil if another node
// asks for too many types: the request of one of its clients must not end the stream that all its
// clients of the key use, so it gets no answer.
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
		return nil, false, nil // counted already
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

// laterLocked calls f once mu is unlocked. Anything that may take long, such as writing a log line,
// must be done so: flushes wait for mu.
func (s *stream) laterLocked(f func()) {
	before := s.after
	if before == nil {
		s.after = f
		return
	}
	s.after = func() { before(); f() }
}

// unlock unlocks mu and then calls what laterLocked queued.
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

// close frees what an ended stream holds.
func (s *stream) close() {
	s.mu.Lock()
	s.ended = true
	s.disarmLocked()
	for _, ts := range s.types {
		s.leftLocked(ts, ts.Acked.Gen, everything)
	}
	types, group, own := s.types, s.group, s.own
	events := s.departLocked()
	s.mu.Unlock()
	s.keepEvents(events)
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
