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

// loadStream is one client's stream of load reports (LRS). Its handler only
// receives. What the origin wants to be told is sent by goroutines that live as
// long as it takes: that is rarely news.
type loadStream struct {
	caller

	// Fixed after construction.
	srv  *Server
	grpc grpc.ServerStream
	tier *peering // of another node; nil for a client

	key aggregation.Key // owned by the handler goroutine; empty until it is known

	mu sync.Mutex
	// Guarded by mu.
	client  *load.Client // nil before the first message
	told    *load.Terms  // what the client was told last
	telling bool         // a goroutine is telling the client
	ended   bool         // the handler has returned

	tellers sync.WaitGroup
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

// handleLoad serves one stream of load reports until the client ends it or a
// reason is found to.
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
		next := awaited{tier: st.tier, first: !joined, node: resource.NodeNumber(true), by: p} // the same as in LRS
		if over, err := s.receive(&st.caller, &in, next); over {
			return err
		}
		size := in.size()
		if joined {
			st.taken(size)
		}
		if !joined && !first.Stop() {
			in.free()
			return s.ended(&st.caller, errNoRequest) // it came just as the time was over
		}
		if err := st.take(&in, p, !joined); err != nil {
			return s.refused(&st.caller, err)
		}
		if st.tier == nil {
			s.hold(gs.Context(), &st.caller, &tokens, size)
		}
	}
}

const (
	// largeLoad is when a report is large, in bytes: decoded, it takes many times as much.
	largeLoad = 256 << 10
	// maxLargeLoads is how many large reports are decoded and added up at a time. Others
	// wait for that, and their clients with them.
	maxLargeLoads = 2
)

// take processes the message in, of a client that p describes.
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

// read reads a message.
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

// identify takes the client's Node from the first message and joins its key's
// account, by the same rules as for configuration (B1). What later messages say
// of the Node counts for nothing.
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

// receive adds a report to the key's account, which came in so many bytes.
func (s *loadStream) receive(r *lrsv3.LoadStatsRequest, size int) error {
	stats := r.GetClusterStats()
	if err := load.Check(stats); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	s.srv.load.received(len(stats), size, s.client.Report(stats))
	return nil
}

// news sees to it that the client learns what is new, if anything is. It never
// blocks for long.
func (s *loadStream) news() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.telling || s.nextLocked() == nil {
		return
	}
	s.telling = true
	s.tellers.Go(s.tell)
}

// nextLocked returns what the client has to be told, nil for nothing. It ends the
// stream if there is nobody to report to.
func (s *loadStream) nextLocked() *load.Terms {
	if s.ended || s.client == nil { // it is about to join, and looks again then
		return nil
	}
	terms, err := s.client.Terms()
	if err != nil {
		s.end(status.Error(codes.Unimplemented, err.Error()))
		return nil
	}
	if terms == s.told {
		return nil
	}
	return terms
}

// tell sends what is new until nothing is, and ends a stream whose client does
// not read.
func (s *loadStream) tell() {
	for {
		s.mu.Lock()
		terms := s.nextLocked()
		if s.telling = terms != nil; s.telling {
			s.told = terms
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
			s.end(err) // mostly the handler is about to learn the reason itself
		}
	}
}

// unanswered is 1 for a stream that was told nothing yet.
func (s *loadStream) unanswered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == nil {
		return 1
	}
	return 0
}

func (s *Server) addLoad(st *loadStream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.tier != nil { // no client, and no reason to wait
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

// close frees what an ended stream held. When it returns, nobody sends any more.
func (s *loadStream) close() {
	s.mu.Lock()
	s.ended = true
	client := s.client
	s.mu.Unlock()
	s.tellers.Wait()
	if client != nil {
		client.Leave()
	}
}
