package fanout

import (
	"context"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// Other nodes of a tier follow this one, each with a delta stream for a key that they
// take this node for the owner of. Such a stream is served like that of a client, with
// these differences:
//   - Key and Node are what the other node says; it has applied the rules.
//   - Its names are those of all its clients, so they are not bounded.
//   - Every request that changes the subscription is answered, with a mark that says
//     so, since the other node goes on to tell its clients what does not exist (K13).
//   - The version is that of the origin or none: the other node finds a digest itself,
//     which is the same (D7, K11).
//   - Of a resource that must not be shared it is told just that (K17).
//   - Where the origin is out of reach, it is told at once that it should ask itself.
//   - If it holds something already, or knows from the origin that there is nothing, it
//     is told nothing that may be older, until the origin has confirmed it: what was
//     restored here, and what this node has from before the key became its own.
//   - It is sent the names of which clients may remember an error, and sends those that it
//     knows of (C16).
//   - E3 and E7 are the other node's to do.

// peering is what a stream of another node has beside that of a client.
type peering struct {
	// Fixed after construction.
	node string // its name
	key  aggregation.Key
	leg  int // whose server is told; -1 for nobody's

	// Guarded by the stream's mu.
	edits   map[*typeState]uint64              // requests that changed a subscription
	errored map[*typeState]*cache.SharedErrors // what it was sent of errors
	server  string                             // what was told of the origin's server
	cut     bool                               // it was told that the origin is out of reach
}

// peerPatience is how long the origin may be out of reach until another node is told
// to ask for itself.
const peerPatience = time.Second

// errNoOriginForPeer is not UNAVAILABLE, which would mean this node.
var errNoOriginForPeer = status.Error(codes.FailedPrecondition, "the origin cannot be reached from this node, and nothing is known yet of what was asked for")

// RegisterPeers adds what other nodes of the tier are served to gs: ADS, of which only
// the incremental variant, and LRS. gs must have been made with [Server.ServerOptions],
// and let in nobody but nodes of the tier.
func (s *Server) RegisterPeers(gs *grpc.Server) {
	gs.RegisterService(&grpc.ServiceDesc{
		ServiceName: aggregated.Name, Metadata: aggregated.File,
		Streams: []grpc.StreamDesc{{
			StreamName: aggregated.Delta, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, gs grpc.ServerStream) error { return s.handlePeer(gs) },
		}},
	}, nil)
	gs.RegisterService(s.describeLoad(true), nil)
}

// handlePeer serves one stream of another node.
func (s *Server) handlePeer(gs grpc.ServerStream) error {
	p, err := peeringOf(gs.Context(), s.cfg.Cache)
	if err != nil {
		return err
	}
	// Its clients may take lifetimes (F1).
	st := &stream{srv: s, grpc: gs, form: form{delta: true, relay: true, timed: true}, since: s.stamp(time.Now()), tier: p}
	return st.serve()
}

// peeringOf reads what a stream of another node is about.
func peeringOf(ctx context.Context, c *cache.Cache) (*peering, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	first := func(name string) string {
		if v := md.Get(name); len(v) > 0 {
			return v[0]
		}
		return ""
	}
	key := first(resource.PeerKeyHeader)
	if key == "" || len(key) > aggregation.MaxKeyLen {
		return nil, status.Errorf(codes.InvalidArgument, "the metadata %s has %d bytes, expected an aggregation key of 1 to %d", resource.PeerKeyHeader, len(key), aggregation.MaxKeyLen)
	}
	p := &peering{node: first(resource.PeerNodeHeader), key: aggregation.Key(key), leg: -1, edits: make(map[*typeState]uint64), errored: make(map[*typeState]*cache.SharedErrors)}
	if c != nil {
		p.leg = c.LegNamed(first(resource.PeerLegHeader))
	}
	return p, nil
}

// identifyPeer joins the group that another node asks for, in the name of an encoded Node.
func (s *stream) identifyPeer(raw []byte) error {
	var node corev3.Node
	if err := readable.Unmarshal(raw, &node); err != nil {
		return status.Errorf(codes.InvalidArgument, "node in the first request: %v", err)
	}
	i := identityOf(raw)
	s.node, s.nodeID, s.cluster = i.node, i.id, i.cluster
	g := s.srv.cfg.Cache.JoinPeer(s.tier.key, &node)
	s.mu.Lock()
	s.group = g
	s.mu.Unlock()
	return nil
}

// askedByPeerLocked notes what a request of another node says beyond the protocol, and
// whether it changed the subscription.
func (s *stream) askedByPeerLocked(ts *typeState, r *resource.Request) error {
	if s.tier.errored[ts] == nil {
		s.tier.errored[ts] = &cache.SharedErrors{}
	}
	ts.table.AskErrored(s.tier.errored[ts], func(yield func(string) bool) {
		for name := range r.Subscribe.All() {
			if !yield(string(name)) {
				return
			}
		}
	})
	if r.Subscribe.Len()+r.Unsubscribe.Len() > 0 {
		s.tier.edits[ts]++
		ts.Mark(conversation.FirstAnswerDue, true)
	}
	if len(r.Errored) == 0 {
		return nil
	}
	errored, err := resource.ReadErrored(r.Errored)
	if err != nil {
		return malformed(err)
	}
	ts.table.Learn(errored)
	return nil
}

// markLocked completes a response to another node, which was just committed.
func (s *stream) markLocked(ts *typeState, q cache.Query, b *body, f *frame, before cache.Position) {
	var m resource.PeerMark
	// While removals wait for other types, the other node would take what it still has for
	// what the origin serves, and pass it on to others.
	due := !b.known || b.more || b.withholds || q.NotesOnly
	if !due {
		m.Edits = s.tier.edits[ts]
	}
	shared := s.tier.errored[ts]
	m.Errored = ts.table.Errored(&ts.watcher, shared)
	ts.Mark(conversation.FirstAnswerDue, due || shared.More())
	m.System = b.system
	if server := s.group.Server(s.tier.leg); server != s.tier.server {
		s.tier.server, m.Server = server, server
	}
	s.tier.cut = s.group.Cut(s.tier.leg)
	if m.Cut = s.tier.cut; m.Cut {
		if asOf := ts.table.AsOf(); !asOf.IsZero() {
			m.Age = max(time.Since(asOf), time.Millisecond)
		}
	}
	m.Trace = s.newestLocked(ts, before, ts.Sent.Gen).Parent()
	f.tail = resource.AppendPeerMark(f.tail, m)
}

// confirmPause is between two looks whether what was restored has been confirmed.
const confirmPause = 100 * time.Millisecond

// outdatedLocked reports whether what there is may be older than what the other node
// has. Where nobody can be asked the other node is told so (see giveUpLocked).
func (s *stream) outdatedLocked(ts *typeState, now time.Time) bool {
	if !ts.isUncompared() {
		return false
	}
	doubtful, cut := ts.table.Doubtful(s.tier.node)
	if !doubtful {
		return false
	}
	ts.Mark(conversation.Unreachable, cut)
	s.armLocked(now.Add(confirmPause))
	return true
}

// oweLocked makes an answer due that another node needs although there is no news: that
// the origin can be reached again.
func (s *stream) oweLocked(ts *typeState) {
	if s.tier != nil && s.tier.cut && !ts.Has(conversation.FirstAnswerDue) && !s.group.Cut(s.tier.leg) {
		ts.Mark(conversation.FirstAnswerDue, true)
	}
}

// PeerStreams describes the open streams of other nodes, in no order.
func (s *Server) PeerStreams() []StreamInfo {
	streams := s.peersNow()
	out := make([]StreamInfo, 0, len(streams))
	for _, st := range streams {
		out = append(out, st.info())
	}
	return out
}

// peersNow returns the streams of other nodes that are open now.
func (s *Server) peersNow() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.peers))
}
