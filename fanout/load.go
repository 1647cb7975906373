package fanout

import (
	"context"
	"math"
	"time"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout/limit"
	"xdsrelay/fanout/transport"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/load"
	"xdsrelay/relay/lockorder"
	"xdsrelay/relay/resource"
)

// loadStream is a client's stream of load reports (LRS). It is the [transport.Client] of its call.
type loadStream struct {
	caller

	// Fixed after construction.
	srv  *Server
	tier *peering // for a stream of another node; nil for a client

	// Owned by the goroutine that processes requests.
	first  *time.Timer     // for the first request; nil after that
	key    aggregation.Key // empty until known
	tokens limit.Tokens

	mu lockorder.Mutex[lockorder.LoadSource]
	// Guarded by mu.
	client    *load.Client // nil before the first message
	sentTerms *load.Terms  // the last terms sent to the client
	sending   bool         // the call has not been writable since the newest terms
	ended     bool         // nothing is sent any more

}

var errNoLoads = status.Error(codes.Unimplemented, "the control plane of this node accepts no load reports")

// openLoad admits a stream of load reports.
func (s *Server) openLoad(call transport.Call, peer bool) (transport.Client, error) {
	if s.cfg.Loads == nil {
		return nil, errNoLoads
	}
	st := &loadStream{caller: callerOf(call), srv: s}
	if peer {
		var err error
		if st.tier, err = peeringOf(call, nil); err != nil {
			return nil, err
		}
	}
	if err := s.admitLoad(st); err != nil {
		return nil, s.notAdmitted(err)
	}
	st.first = time.AfterFunc(s.cfg.FirstRequestTimeout, func() { call.End(errNoRequest) })
	return st, nil
}

// Begin implements [transport.Client].
func (s *loadStream) Begin(b []byte, size int) error {
	if s.tier != nil {
		return nil
	}
	if err := s.srv.authorizeEarly(&s.caller, b, size, resource.NodeNumber(true)); err != nil { // the same number as in LRS
		return s.srv.refused(&s.caller, err)
	}
	return nil
}

// Request implements [transport.Client].
func (s *loadStream) Request(b []byte) (pause time.Duration, err error) {
	first := s.first
	if s.first = nil; first != nil && !first.Stop() {
		return s.NoMoreRequests(errNoRequest) // the request arrived just after the timeout
	}
	if err := s.take(b, first != nil); err != nil {
		return s.stop(s.srv.refused(&s.caller, err))
	}
	if s.tier != nil {
		return 0, nil
	}
	return s.srv.throttle(&s.caller, &s.tokens, len(b)), nil
}

// NoMoreRequests implements [transport.Client].
func (s *loadStream) NoMoreRequests(err error) (pause time.Duration, reason error) {
	return s.stop(s.srv.ended(&s.caller, err))
}

// Closed implements [transport.Client].
func (s *loadStream) Closed() {
	if s.first != nil {
		s.first.Stop()
	}
	s.srv.removeLoad(s)
	s.srv.leaveLoad(s)
}

const (
	// largeLoad is the size of a large report, in bytes: decoded, it takes many times as much
	// memory.
	largeLoad = 256 << 10
	// maxLargeLoads is how many large reports are decoded and added up at the same time. The others
	// wait, and their clients with them.
	maxLargeLoads = 2
)

// take processes the encoded message b.
func (s *loadStream) take(b []byte, first bool) error {
	if len(b) > largeLoad {
		select {
		case s.srv.largeLoads <- struct{}{}:
			defer func() { <-s.srv.largeLoads }()
		case <-s.call.Done():
			return context.Canceled
		}
	}
	r, err := s.read(b)
	if err != nil {
		return err
	}
	if first {
		if err := s.identify(r); err != nil {
			return err
		}
	}
	return s.receive(r, len(b))
}

// read decodes a message.
func (s *loadStream) read(raw []byte) (*lrsv3.LoadStatsRequest, error) {
	r := &lrsv3.LoadStatsRequest{}
	if d := r.ProtoReflect().Descriptor(); s.tier == nil && messagesIn(raw, d, maxLoadParts) > maxLoadParts {
		return nil, status.Errorf(codes.ResourceExhausted, "the load report has more than %d parts, expected fewer", maxLoadParts)
	}
	if err := readable.Unmarshal(raw, r); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "the load report is malformed: %v", err)
	}
	return r, nil
}

// identify takes the client's Node from the first message and joins its key's account, by the same
// rules as for configuration (B1). The Node in later messages is ignored.
func (s *loadStream) identify(r *lrsv3.LoadStatsRequest) error {
	s.nodeID = r.GetNode().GetId()
	var client *load.Client
	if s.tier != nil {
		client = s.srv.cfg.Loads.JoinPeer(s.tier.key, r.GetNode(), s.news)
	} else {
		if err := s.srv.checkNode(&s.caller, proto.Size(r.GetNode())); err != nil {
			return err
		}
		res, err := s.srv.letIn(&s.caller, r.GetNode(), s.call.Identity(), 0)
		if err != nil {
			return err
		}
		if err := s.srv.useKey(&s.caller, res.Key); err != nil {
			return err
		}
		s.key = res.Key
		client = s.srv.cfg.Loads.Join(res.Key, res.Node, s.news)
	}
	s.mu.Lock()
	s.client = client
	s.mu.Unlock()
	s.news()
	return nil
}

// receive adds a report of size bytes to the key's account.
func (s *loadStream) receive(r *lrsv3.LoadStatsRequest, size int) error {
	stats := r.GetClusterStats()
	if err := load.Check(stats); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	s.reported(stats, time.Now()) // before they are handed on
	s.srv.load.received(len(stats), size, s.client.Report(stats))
	return nil
}

// news sends new terms to the client if there are any. It never blocks for long.
func (s *loadStream) news() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sending {
		return
	}
	if terms := s.nextLocked(); terms != nil {
		s.sendLocked(terms)
	}
}

// sendLocked sends terms. Clients do not answer them, so the transport may have no room.
func (s *loadStream) sendLocked(terms *load.Terms) {
	s.sentTerms = terms
	b, err := proto.Marshal(terms.Response)
	if err != nil {
		s.call.End(status.Error(codes.Internal, err.Error()))
		return
	}
	s.sending = !s.call.Send(&transport.Message{Body: b}, math.MaxInt)
}

// Writable implements [transport.Client].
func (s *loadStream) Writable() {
	s.mu.Lock()
	s.sending = false
	s.mu.Unlock()
	s.news()
}

// nextLocked returns the terms to send; nil for none. It ends the stream if the control plane
// accepts no load reports.
func (s *loadStream) nextLocked() *load.Terms {
	if s.ended || s.client == nil { // it is about to join, and then calls news itself
		return nil
	}
	terms, err := s.client.Terms()
	if err != nil {
		s.call.End(status.Error(codes.Unimplemented, err.Error()))
		return nil
	}
	if terms == s.sentTerms {
		return nil
	}
	return terms
}

// unanswered returns 1 for a stream without a response.
func (s *loadStream) unanswered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sentTerms == nil {
		return 1
	}
	return 0
}

func (s *Server) addLoad(st *loadStream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.tier != nil { // not a client, and a drain does not wait for it
		s.load.stream(1)
		return nil
	}
	if s.draining.Load() {
		return errDraining
	}
	s.loads[st] = struct{}{}
	st.enters()
	s.load.stream(1)
	return nil
}

func (s *Server) removeLoad(st *loadStream) {
	st.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, client := s.loads[st]; client {
		st.leaves()
	}
	delete(s.loads, st)
	s.load.stream(-1)
	s.signalEmptyLocked()
}

// close frees what an ended stream holds.
func (s *loadStream) close() {
	s.mu.Lock()
	s.ended = true
	client := s.client
	s.mu.Unlock()
	if client != nil {
		client.Leave()
	}
}
