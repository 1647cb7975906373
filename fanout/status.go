package fanout

import (
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// Client is an open stream, for those who ask how its client stands with each
// resource (K20).
type Client struct {
	// Key is the client's aggregation key.
	Key string

	stream *stream
}

// ResourceStatus is how a client stands with one resource that it subscribes to.
type ResourceStatus struct {
	Type *resource.Type
	Name string
	// State is that of this resource alone: Synced if the client took it as it
	// is, Stale if it has not answered, Nacked if it rejected the response that
	// had it, NotSent if it was not sent as it is, or there is none.
	State State
	// Private says that it is this client's own, and must not be shown to others
	// (K17).
	Private bool
	// Resource is what there is, nil where there is none.
	Resource *resource.Resource
	// Version is what the client was told: the resource's, or on SotW that of
	// the newest response; empty with NotSent.
	Version string
	// Changed is when the resource last changed; zero where nothing is known.
	Changed time.Time
	// Nack comes with Nacked.
	Nack *Nack
}

// Clients returns the open streams whose clients have said who they are, in no
// order.
func (s *Server) Clients() []Client {
	streams := s.snapshot()
	out := make([]Client, 0, len(streams))
	for _, st := range streams {
		st.mu.Lock()
		g := st.group
		st.mu.Unlock()
		if g != nil {
			out = append(out, Client{Key: string(g.Key), stream: st})
		}
	}
	return out
}

// Node is what is kept of the client's Node: id, cluster, locality, user agent and
// client features, and its metadata unless that is large.
func (c Client) Node() *corev3.Node {
	n := &corev3.Node{}
	if err := proto.Unmarshal([]byte(c.stream.node), n); err != nil {
		return &corev3.Node{Id: c.stream.nodeID, Cluster: c.stream.cluster} // cannot be: it could be read before
	}
	return n
}

// ID is the client's node id.
func (c Client) ID() string { return c.stream.nodeID }

// Peer is the address that the client came from.
func (c Client) Peer() string { return c.stream.peer }

// Info describes the stream, as it is now.
func (c Client) Info() StreamInfo { return c.stream.info() }

// Resources goes through what the client subscribes to, type by type in the order
// E1, and by name. It costs as much as there is, and holds nothing up.
func (c Client) Resources(yield func(ResourceStatus) bool) {
	c.stream.mu.Lock()
	types := make([]typeStatus, 0, len(c.stream.types))
	for _, ts := range c.stream.types {
		if sub := ts.table.Subscription(&ts.watcher); sub != nil {
			types = append(types, ts.statusLocked(sub, c.stream.delta))
		}
	}
	c.stream.mu.Unlock()
	for i := range types {
		sights := types[i].sub.Sights()
		slices.SortFunc(sights, func(a, b cache.Sight) int { return strings.Compare(a.Name, b.Name) })
		for _, sight := range sights {
			if !yield(types[i].of(sight)) {
				return
			}
		}
	}
}

// typeStatus is what of a typeState says how the client stands with its
// resources. It never changes.
type typeStatus struct {
	typ         *resource.Type
	private     bool
	sub         *cache.Subscription
	sent, acked uint64
	untold      [2]*cache.Names // not told yet
	unacked     [2]*cache.Names // told, and not acknowledged
	rejected    bool
	nack        *Nack
	version     string // of the newest response on SotW
}

// statusLocked takes in the state of now; the stream's mu must be held.
func (ts *typeState) statusLocked(sub *cache.Subscription, delta bool) typeStatus {
	s := typeStatus{
		typ: ts.table.Type, private: ts.private, sub: sub, sent: ts.sent.Gen, acked: ts.acked.Gen,
		untold: [2]*cache.Names{ts.tell, ts.asked}, unacked: [2]*cache.Names{ts.told, ts.refreshed},
		rejected: ts.rejected || ts.marred, nack: ts.nack,
	}
	if !delta {
		s.version = ts.version
	}
	return s
}

func (s *typeStatus) of(sight cache.Sight) ResourceStatus {
	out := ResourceStatus{
		Type: s.typ, Private: s.private, Name: sight.Name, Resource: sight.Resource, Changed: sight.Changed,
		State: s.state(sight),
	}
	if out.State == NotSent {
		return out
	}
	if out.Version = s.version; out.Version == "" {
		out.Version = sight.Resource.Version
	}
	if out.State == Nacked {
		out.Nack = s.nack
	}
	return out
}

func (s *typeStatus) state(sight cache.Sight) State {
	if sight.Resource == nil {
		return NotSent
	}
	key := sight.Resource.Key
	switch {
	case sight.Gen > s.sent || among(s.untold, key):
		return NotSent
	case sight.Gen <= s.acked && !among(s.unacked, key):
		return Synced
	case s.rejected:
		return Nacked
	}
	return Stale
}

// among reports whether one of two sets has a name.
func among(sets [2]*cache.Names, name string) bool {
	for _, set := range sets {
		if set.Has(name) {
			return true
		}
	}
	return false
}
