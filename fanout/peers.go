package fanout

import (
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/conversation"
	"xdsrelay/fanout/transport"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// Other nodes of a tier follow this node: they open a delta stream for each key of which they take
// this node for the owner. Such a stream is served like that of a client, with these differences:
//   - The other node supplies key and Node; it has applied the rules.
//   - Its names are those of all its clients, so they are not bounded.
//   - Every request that changes the subscription is answered, with a mark that says so, since the
//     other node then reports to its clients which resources do not exist (K13).
//   - The version is that of the control plane or empty: the other node computes a digest itself,
//     which is the same (D7, K11).
//   - If a resource must not be shared, it is sent only that fact (K17).
//   - If the control plane is unreachable, it is notified at once, so that it asks the control plane
//     itself.
//   - If it holds content, or knows from the control plane that there is none, it is sent nothing
//     that may be older until the control plane has confirmed it: content that was restored here,
//     and content from before this node became the owner.
//   - It is sent the names for which clients may remember an error, and sends the names that it
//     knows of (C16).
//   - E3 and E7 are done by the other node.

// peering is the additional state of a stream of another node.
type peering struct {
	// Fixed after construction.
	node string // the node's name
	key  aggregation.Key
	rule string // the aggregation rule of the key; empty if it knows none
	leg  int    // the upstream stream whose server is reported; -1 for none

	// Guarded by the stream's mu.
	edits   map[*typeState]uint64              // number of requests that changed a subscription
	errored map[*typeState]*cache.SharedErrors // the errors that it was sent
	server  string                             // the server of the control plane that it was sent
	cut     bool                               // it was sent that the control plane is unreachable
	kept    map[*typeState]bool                // it was sent that removals are held back; see [cache.Table.KeepsChildren]
}

// peerPatience is how long the control plane may be unreachable until another node is asked to
// connect to it itself.
const peerPatience = time.Second

// errNoOriginForPeer is not UNAVAILABLE, which would mean that this node is.
var errNoOriginForPeer = status.Error(codes.FailedPrecondition, "this node cannot reach the control plane, and has no state of the requested resources yet")

// openPeer admits a stream of another node.
func (s *Server) openPeer(call transport.Call) (transport.Client, error) {
	p, err := peeringOf(call, s.cfg.Cache)
	if err != nil {
		return nil, err
	}
	// Its clients may accept lifetimes (F1).
	f := form{delta: true, relay: true, timed: true}
	return s.open(&stream{caller: callerOf(call), srv: s, form: f, since: s.stamp(time.Now()), tier: p})
}

// peeringOf reads the key and the node of a stream from its headers.
func peeringOf(call transport.Call, c *cache.Cache) (*peering, error) {
	first := func(name string) string {
		if v := call.Header(name); len(v) > 0 {
			return v[0]
		}
		return ""
	}
	key := first(resource.PeerKeyHeader)
	if key == "" || len(key) > aggregation.MaxKeyLen {
		return nil, status.Errorf(codes.InvalidArgument, "the metadata %s has %d bytes, expected an aggregation key of 1 to %d", resource.PeerKeyHeader, len(key), aggregation.MaxKeyLen)
	}
	p := &peering{node: first(resource.PeerNodeHeader), key: aggregation.Key(key), leg: -1, edits: make(map[*typeState]uint64), kept: make(map[*typeState]bool), errored: make(map[*typeState]*cache.SharedErrors)}
	if rule := first(resource.PeerRuleHeader); len(rule) <= aggregation.MaxKeyLen {
		p.rule = rule
	}
	if c != nil {
		p.leg = c.StreamNamed(first(resource.PeerLegHeader))
	}
	return p, nil
}

// identifyPeer joins the group that another node requests. raw is the encoded Node.
func (s *stream) identifyPeer(raw []byte) error {
	var node corev3.Node
	if err := readable.Unmarshal(raw, &node); err != nil {
		return status.Errorf(codes.InvalidArgument, "node in the first request: %v", err)
	}
	i := identityOf(raw)
	s.node, s.nodeID, s.cluster = i.node, i.id, i.cluster
	g := s.srv.cfg.Cache.JoinPeer(s.tier.key, &node)
	if s.tier.rule != "" && s.srv.cfg.Keyed != nil {
		s.srv.cfg.Keyed(g, s.tier.rule)
	}
	s.mu.Lock()
	s.group = g
	s.mu.Unlock()
	return nil
}

// askedByPeerLocked records what a request of another node says beyond xDS, and whether it changes
// the subscription.
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

// markLocked completes a response to another node that was just committed.
func (s *stream) markLocked(ts *typeState, q cache.Query, b *body, f *transport.Message, before cache.Position) {
	var m resource.PeerMark
	// While removals wait for other types, the other node would take the resources that it still
	// has for current ones, and pass them on to others.
	due := b.answer.Rest != conversation.NothingLeft || b.answer.Removals == cache.KeptFromNode || q.Scope == cache.NotesOnly
	if !due {
		m.Edits = s.tier.edits[ts]
	}
	shared := s.tier.errored[ts]
	m.Errored = ts.table.Errored(&ts.watcher, shared)
	ts.Mark(conversation.FirstAnswerDue, due || shared.More())
	m.System, m.Kept = b.system, ts.table.KeepsChildren()
	s.tier.kept[ts] = m.Kept
	m.Versions = ts.table.VersionsSince(before.Gen, ts.Sent.Gen)
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
	f.Tail = resource.AppendPeerMark(f.Tail, m)
}

// confirmPause is the time between two checks whether restored content has been confirmed.
const confirmPause = 100 * time.Millisecond

// outdatedLocked reports whether the content may be older than that of the other node. If the
// control plane cannot be asked, the other node is notified (see giveUpLocked).
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

// oweLocked makes an answer due that the other node needs without a change: that the control plane
// is reachable again, or that nothing is held back any more.
func (s *stream) oweLocked(ts *typeState) {
	if s.tier == nil || ts.Has(conversation.FirstAnswerDue) {
		return
	}
	if s.tier.cut && !s.group.Cut(s.tier.leg) || s.tier.kept[ts] && !ts.table.KeepsChildren() {
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

// PeerNodes returns the names of the nodes that get keys from this one, by key.
func (s *Server) PeerNodes() map[string][]string {
	all := make(map[string][]string)
	for _, st := range s.peersNow() {
		if key := string(st.tier.key); !slices.Contains(all[key], st.tier.node) {
			all[key] = append(all[key], st.tier.node)
		}
	}
	return all
}

// peersNow returns the open streams of other nodes.
func (s *Server) peersNow() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.peers))
}
