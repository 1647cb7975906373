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

// Client is an open stream, or a client that polls, for those who ask how it stands
// with each resource (K20). All methods are safe for concurrent use.
type Client interface {
	// Key is the client's aggregation key, ID its node id, and Peer the address that it
	// came from.
	Key() string
	ID() string
	Peer() string
	// Node is what is kept of the client's Node: id, cluster, locality, user agent and
	// client features, and its metadata unless that is large.
	Node() *corev3.Node
	// Info describes it, as it is now.
	Info() StreamInfo
	// Resources goes through what the client subscribes to, type by type in the order
	// E1, and by name. It costs as much as there is, and holds nothing up.
	Resources(yield func(ResourceStatus) bool)
	// Holdings compares what the client holds with what there is, type by type in the
	// order E1. What it has acknowledged it holds. It costs as much as it subscribes to.
	Holdings() []TypeDiff
	// Reach tells how an update of a table stands with the client: Synced if it has taken
	// it, Nacked if it rejected it, Stale if it was sent and is not answered, and NotSent
	// if it is still to be sent. at is when that became so. ok is false where the client
	// need not be told of the update, or came after it. Nothing is kept for this.
	Reach(t *cache.Table, u cache.UpdateRef) (state State, at time.Time, ok bool)
}

// client is a stream as a Client, once its client has said who it is.
type client struct{ *stream }

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
			out = append(out, client{st})
		}
	}
	return out
}

func (c client) Key() string        { return string(c.group.Key) }
func (c client) ID() string         { return c.nodeID }
func (c client) Peer() string       { return c.peer }
func (c client) Node() *corev3.Node { return KeptNode(c.node, c.nodeID, c.cluster) }
func (c client) Info() StreamInfo   { return c.info() }

// KeptNode reads what [KeepNode] has kept of a Node with this id and cluster.
func KeptNode(kept, id, cluster string) *corev3.Node {
	n := &corev3.Node{}
	if err := proto.Unmarshal([]byte(kept), n); err != nil {
		return &corev3.Node{Id: id, Cluster: cluster} // cannot be: it could be read before
	}
	return n
}

// Resources are those of the types that the stream has now.
func (c client) Resources(yield func(ResourceStatus) bool) {
	c.mu.Lock()
	types := make([]Place, 0, len(c.types))
	for _, ts := range c.types {
		if sub := ts.table.Subscription(&ts.watcher); sub != nil {
			types = append(types, ts.placeLocked(sub, c.delta))
		}
	}
	c.mu.Unlock()
	for i := range types {
		if !types[i].Resources(yield) {
			return
		}
	}
}

// Place is where a client is in a table, by which it is known how it stands with each
// resource.
type Place struct {
	Type *resource.Type
	// Private says that what it sees is the client's own.
	Private bool
	// Sub is what it asks for.
	Sub *cache.Subscription
	// Sent and Acked are the generations of what it was told, and of what it took.
	Sent, Acked uint64
	// Rejected says that it rejected what is between them, which Nack tells more of.
	Rejected bool
	Nack     *Nack
	// Version is that of the newest response where it stands for all in it, as on SotW.
	Version string

	untold  [2]*cache.Names // not told yet, though before Sent
	unacked [2]*cache.Names // told, and not acknowledged, though before Acked
}

// placeLocked takes in the state of now; the stream's mu must be held.
func (ts *typeState) placeLocked(sub *cache.Subscription, delta bool) Place {
	p := Place{
		Type: ts.table.Type, Private: ts.private, Sub: sub, Sent: ts.Sent.Gen, Acked: ts.Acked.Gen,
		untold: [2]*cache.Names{ts.Force, ts.OnDemand}, unacked: [2]*cache.Names{ts.ForceUnacked, ts.ResendUnacked},
		Rejected: ts.IsRejected(), Nack: ts.nack,
	}
	if !delta {
		p.Version = ts.version
	}
	return p
}

// Resources goes through what the client asks for, by name. It reports whether yield
// wants more.
func (p *Place) Resources(yield func(ResourceStatus) bool) bool {
	sights := p.Sub.Sights()
	slices.SortFunc(sights, func(a, b cache.Sight) int { return strings.Compare(a.Name, b.Name) })
	for _, sight := range sights {
		if !yield(p.of(sight)) {
			return false
		}
	}
	return true
}

func (p *Place) of(sight cache.Sight) ResourceStatus {
	out := ResourceStatus{
		Type: p.Type, Private: p.Private, Name: sight.Name, Resource: sight.Resource, Changed: sight.Changed,
		State: p.state(sight),
	}
	if out.State == NotSent {
		return out
	}
	if out.Version = p.Version; out.Version == "" {
		out.Version = sight.Resource.Version
	}
	if out.State == Nacked {
		out.Nack = p.Nack
	}
	return out
}

func (p *Place) state(sight cache.Sight) State {
	if sight.Resource == nil {
		return NotSent
	}
	key := sight.Resource.Key
	switch {
	case sight.Gen > p.Sent || among(p.untold, key):
		return NotSent
	case sight.Gen <= p.Acked && !among(p.unacked, key):
		return Synced
	case p.Rejected:
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
