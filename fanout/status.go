package fanout

import (
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// Client is an open stream, or a client that polls, for queries of the client's status with each
// resource (K20). All methods are safe for concurrent use.
type Client interface {
	// Key is the client's aggregation key, ID its node id, and Peer its address.
	Key() string
	ID() string
	Peer() string
	// Node is the part of the client's Node that is kept: id, cluster, locality, user agent and
	// client features, and the metadata unless that is large.
	Node() *corev3.Node
	// Rule says what rules would decide about the client; see [Kept.Rule].
	Rule(rules *aggregation.Rules, policy *authorize.Policy) Ruling
	// Info describes the client's current state.
	Info() StreamInfo
	// Rollout is the part of the client in a rollout; nil if it has none.
	Rollout() *ClientRollout
	// Resources iterates over the resources that the client subscribes to, type by type in the
	// order E1, and by name. The cost is proportional to their number, and nothing waits for it.
	Resources(yield func(ResourceStatus) bool)
	// Holdings compares the client's resources with the tables, type by type in the order E1. The
	// client counts as holding what it has acknowledged. The cost is proportional to the size of
	// its subscriptions.
	Holdings() []TypeDiff
	// Find yields the client's status with the canonical names that want returns of a table, as far as its
	// subscriptions include them. The cost is proportional to their number, and nothing waits for it.
	Find(want func(*cache.Table) []string, yield func(*FoundResource) bool)
	// Reach returns the client's state regarding an update of a table: Synced if it acknowledged
	// the update, Nacked if it rejected it, Stale if the update was sent and is not answered, and
	// NotSent if the update is still to be sent. at is when that state began. ok is false if the
	// update need not be sent to the client, or the client connected after it. No memory is kept
	// for this.
	Reach(t *cache.Table, u cache.UpdateRef) (state State, at time.Time, ok bool)
}

// client is a stream as a Client, after its client has identified itself.
type client struct{ *stream }

// ResourceStatus is a client's status with one resource that it subscribes to.
type ResourceStatus struct {
	Type *resource.Type
	Name string
	// State is that of this resource alone: Synced if the client acknowledged its current content,
	// Stale if the client has not answered, Nacked if it rejected the response with that content,
	// NotSent if the current content was not sent or the resource does not exist.
	State State
	// Private means that it belongs to this client alone and must not be shown to others (K17).
	Private bool
	// Resource is the current content; nil if there is none.
	Resource *resource.Resource
	// Version is the version that was sent to the client: of the resource, or on SotW of the newest
	// response. It is empty with NotSent.
	Version string
	// Changed is when the resource last changed; zero if it is unknown.
	Changed time.Time
	// Nack is set if State is Nacked.
	Nack *Nack
}

// Clients returns the open streams whose clients have identified themselves, in no order.
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

func (c client) Rollout() *ClientRollout {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rolloutLocked()
}

// KeptNode decodes the Node that [KeepNode] has encoded, with this id and cluster.
func KeptNode(kept, id, cluster string) *corev3.Node {
	n := &corev3.Node{}
	if err := proto.Unmarshal([]byte(kept), n); err != nil {
		return &corev3.Node{Id: id, Cluster: cluster} // cannot happen: it was decoded before
	}
	return n
}

// Resources iterates over the types that the stream has at the time of the call.
func (c client) Resources(yield func(ResourceStatus) bool) {
	c.mu.Lock()
	types := make([]Place, 0, len(c.types))
	for _, ts := range c.types {
		if sub := ts.table.Subscription(&ts.watcher); sub != nil {
			types = append(types, c.placeLocked(ts, sub))
		}
	}
	c.mu.Unlock()
	for i := range types {
		if !types[i].Resources(yield) {
			return
		}
	}
}

// Place is a client's position in a table, from which its status with each resource follows.
type Place struct {
	Type *resource.Type
	// Private means that the table belongs to the client alone.
	Private bool
	// Sub is the client's subscription.
	Sub *cache.Subscription
	// Sent is the generation of the content that was sent to the client. Acked is the generation of
	// the content that it acknowledged.
	Sent, Acked uint64
	// Rejected means that the client rejected the content between them; Nack has the details.
	Rejected bool
	Nack     *Nack
	// Version is that of the newest response if it covers the whole response, as on SotW.
	Version string

	view *cache.View // what a canary sees; nil for the table

	unsent  [2]*cache.Names // not sent yet, though before Sent
	unacked [2]*cache.Names // sent and not acknowledged, though before Acked
}

// placeLocked returns the current position. The caller must hold the stream's mu.
func (s *stream) placeLocked(ts *typeState, sub *cache.Subscription) Place {
	p := Place{
		Type: ts.table.Type, view: s.seesLocked(ts), Private: ts.private, Sub: sub, Sent: ts.Sent.Gen, Acked: ts.Acked.Gen,
		unsent: [2]*cache.Names{ts.Force, ts.OnDemand}, unacked: [2]*cache.Names{ts.ForceUnacked, ts.ResendUnacked},
		Rejected: ts.IsRejected(), Nack: ts.nack,
	}
	if !s.delta {
		p.Version = ts.version
	}
	return p
}

// Resources iterates over the resources of the subscription, by name. It reports whether yield
// wants more.
func (p *Place) Resources(yield func(ResourceStatus) bool) bool {
	sights := p.Sub.Sights(p.view)
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
	case sight.Gen > p.Sent || among(p.unsent, key):
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
