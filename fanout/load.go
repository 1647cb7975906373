package fanout

import (
	"sync"
	"time"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout/authz"
	"xdsrelay/fanout/limit"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/load"
	"xdsrelay/relay/resource"
)

// loadStream is a client's stream of load reports (LRS). Its handler only receives. The terms that
// the control plane asks for change rarely; goroutines that live only for that send them.
type loadStream struct {
	caller

	// Fixed after construction.
	srv  *Server
	grpc grpc.ServerStream
	tier *peering // for a stream of another node; nil for a client

	key aggregation.Key // owned by the handler goroutine; empty until known

	mu sync.Mutex
	// Guarded by mu.
	client    *load.Client // nil before the first message
	sentTerms *load.Terms  // the last terms sent to the client
	sending   bool         // a goroutine sends terms
	ended     bool         // the handler has returned

	senders sync.WaitGroup
}

var errNoLoads = status.Error(codes.Unimplemented, "the origin of this node takes no load reports")

// describeLoad returns the gRPC description of LRS.
func (s *Server) describeLoad(peers bool) *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: lrsv3.LoadReportingService_ServiceDesc.ServiceName,
		Metadata:    lrsv3.LoadReportingService_ServiceDesc.Metadata,
		Streams: []grpc.StreamDesc{{
			StreamName: "StreamLoadStats", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, gs grpc.ServerStream) error { return s.handleLoad(gs, peers) },
		}},
	}
}

// handleLoad serves a stream of load reports until the client or the server ends it.
func (s *Server) handleLoad(gs grpc.ServerStream, peer bool) (err error) {
	if s.cfg.Loads == nil {
		return errNoLoads
	}
	st := &loadStream{srv: s, grpc: gs}
	if peer {
		if st.tier, err = peeringOf(gs.Context(), nil); err != nil {
			return err
		}
	}
	p, err := st.attach(gs.Context())
	if err != nil {
		return err
	}
	if err := s.admitLoad(st, p); err != nil {
		return s.notAdmitted(gs.Context(), &st.caller, err)
	}
	defer func() {
		st.pause(err)
		st.end(err) // before waiting for a send that may block
		s.removeLoad(st)
		s.leaveLoad(st)
	}()

	first := time.AfterFunc(s.cfg.FirstRequestTimeout, func() { st.end(errNoRequest) })
	defer first.Stop()
	var tokens limit.Tokens
	var in request
	for joined := false; ; joined = true {
		next := awaited{tier: st.tier, first: !joined, node: resource.NodeNumber(true), by: p} // the same number as in LRS
		if over, err := s.receive(&st.caller, &in, next); over {
			return err
		}
		size := in.size()
		if joined {
			st.messageRead(size)
		}
		if !joined && !first.Stop() {
			in.free()
			return s.ended(&st.caller, errNoRequest) // the request arrived just after the timeout
		}
		if err := st.take(&in, p, !joined); err != nil {
			return s.refused(&st.caller, err)
		}
		if st.tier == nil {
			s.throttle(gs.Context(), &st.caller, &tokens, size)
		}
	}
}

const (
	// largeLoad is the size of a large report, in bytes: decoded, it takes many times as much
	// memory.
	largeLoad = 256 << 10
	// maxLargeLoads is how many large reports are decoded and added up at the same time. The others
	// wait, and their clients with them.
	maxLargeLoads = 2
)

// take processes the message in in, from the client that p describes.
func (s *loadStream) take(in *request, p *peer.Peer, first bool) error {
	defer in.free()
	if in.size() > largeLoad {
		select {
		case s.srv.largeLoads <- struct{}{}:
			defer func() { <-s.srv.largeLoads }()
		case <-s.grpc.Context().Done():
			return s.grpc.Context().Err()
		}
	}
	r, err := s.read(in)
	if err != nil {
		return err
	}
	if first {
		if err := s.identify(r, p); err != nil {
			return err
		}
	}
	return s.receive(r, in.size())
}

// read decodes a message.
func (s *loadStream) read(in *request) (*lrsv3.LoadStatsRequest, error) {
	raw, r := in.bytes(), &lrsv3.LoadStatsRequest{}
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
func (s *loadStream) identify(r *lrsv3.LoadStatsRequest, p *peer.Peer) error {
	s.nodeID = r.GetNode().GetId()
	var client *load.Client
	if s.tier != nil {
		client = s.srv.cfg.Loads.JoinPeer(s.tier.key, r.GetNode(), s.news)
	} else {
		if err := s.srv.checkNode(&s.caller, proto.Size(r.GetNode())); err != nil {
			return err
		}
		res, err := s.srv.letIn(&s.caller, r.GetNode(), authz.ClientOf(p), 0)
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
	s.srv.load.received(len(stats), size, s.client.Report(stats))
	return nil
}

// news sends new terms to the client if there are any. It never blocks for long.
func (s *loadStream) news() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sending || s.nextLocked() == nil {
		return
	}
	s.sending = true
	s.senders.Go(s.sendTerms)
}

// nextLocked returns the terms to send; nil for none. It ends the stream if the control plane
// accepts no load reports.
func (s *loadStream) nextLocked() *load.Terms {
	if s.ended || s.client == nil { // it is about to join, and then calls news itself
		return nil
	}
	terms, err := s.client.Terms()
	if err != nil {
		s.end(status.Error(codes.Unimplemented, err.Error()))
		return nil
	}
	if terms == s.sentTerms {
		return nil
	}
	return terms
}

// sendTerms sends terms until none are new. It ends the stream of a client that does not read.
func (s *loadStream) sendTerms() {
	for {
		s.mu.Lock()
		terms := s.nextLocked()
		if s.sending = terms != nil; s.sending {
			s.sentTerms = terms
		}
		s.mu.Unlock()
		if terms == nil {
			return
		}
		deadline := time.AfterFunc(s.srv.cfg.SendTimeout, func() {
			s.srv.metrics.sendTimeout()
			s.end(errSendDeadline)
		})
		err := s.grpc.SendMsg(terms.Response)
		deadline.Stop()
		if err != nil {
			s.end(err) // usually the handler is about to get the reason itself
		}
	}
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

// close frees what an ended stream holds. After it returns, no goroutine sends on the stream.
func (s *loadStream) close() {
	s.mu.Lock()
	s.ended = true
	client := s.client
	s.mu.Unlock()
	s.senders.Wait()
	if client != nil {
		client.Leave()
	}
}
