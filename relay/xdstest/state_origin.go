package xdstest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/xdsclient"
)

// StateOrigin is an automatic control plane: it serves what is in its maps, in
// every variant, to every client the map of its view. It is written to be
// plainly right rather than fast: each answer is computed from whole maps.
// It holds at most one unanswered response per type and stream (B9).
type StateOrigin struct {
	host

	viewOf func(*corev3.Node) string // fixed

	mu      sync.Mutex // guards all below
	clock   int        // counts changes; versions are made of it
	views   map[string]world
	changed chan struct{} // closed and replaced with every change
	counts  Counts
	open    map[*stateStream]progress
}

// progress is how far a stream is: up to which change it has looked, and how
// many of its responses are not answered.
type progress struct{ clock, unanswered int }

// world is one view's resources: type URL, name.
type world map[string]map[string]entry

type entry struct {
	version  string
	body     *anypb.Any
	envelope *discoveryv3.Resource // what else is known of the resource; nil for nothing
}

// Counts is what an automatic server has seen so far.
type Counts struct {
	Streams   int // opened so far
	Open      int // open now
	Requests  int
	Responses int
	Nacks     int
}

// NewStateOrigin starts an automatic control plane. viewOf tells which view a
// client gets, from the node of its first request; nil gives all the view "".
func NewStateOrigin(t TB, viewOf func(*corev3.Node) string) *StateOrigin {
	t.Helper()
	return (*Memory)(nil).NewStateOrigin(t, viewOf)
}

// NewStateOrigin is [NewStateOrigin] on this network.
func (m *Memory) NewStateOrigin(t TB, viewOf func(*corev3.Node) string) *StateOrigin {
	t.Helper()
	return newStateOrigin(t, m, viewOf)
}

func newStateOrigin(t TB, at place, viewOf func(*corev3.Node) string) *StateOrigin {
	t.Helper()
	if viewOf == nil {
		viewOf = func(*corev3.Node) string { return "" }
	}
	o := &StateOrigin{
		host: host{log: NewTranscript("the origin", 400)}, viewOf: viewOf,
		views: make(map[string]world), changed: make(chan struct{}), open: make(map[*stateStream]progress),
	}
	o.listen(t, at, o.handle)
	return o
}

// Counts says what was seen so far.
func (o *StateOrigin) Counts() Counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts
}

// Change is a set of changes that clients see as one. It is used inside of
// [StateOrigin.Update] only.
type Change struct {
	version string
	world   world
}

// Set adds or replaces resources, named by their bodies or by [Named].
func (c *Change) Set(resources ...proto.Message) {
	for _, r := range resources {
		name, body := nameAndBody(r)
		c.put(body.GetTypeUrl(), name, entry{version: c.version, body: body})
	}
}

// SetEnvelope adds or replaces a resource with all that its envelope says: TTL,
// metadata, aliases, unknown fields. A version there takes the place of the
// origin's own. SotW clients get the envelope only if it says more than name,
// version and body.
func (c *Change) SetEnvelope(typeURL string, r *discoveryv3.Resource) {
	c.put(typeURL, r.GetName(), entry{version: cmp.Or(r.GetVersion(), c.version), body: r.GetResource(), envelope: r})
}

func (c *Change) put(typeURL, name string, e entry) {
	if c.world[typeURL] == nil {
		c.world[typeURL] = make(map[string]entry)
	}
	c.world[typeURL][keyOf(name)] = e
}

// Remove removes resources; names that are not there are passed over.
func (c *Change) Remove(typeURL string, names ...string) {
	for _, n := range names {
		delete(c.world[typeURL], keyOf(n))
	}
}

// Update changes a view at one stroke.
func (o *StateOrigin) Update(view string, change func(*Change)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clock++
	w := o.views[view]
	if w == nil {
		w = make(world)
		o.views[view] = w
	}
	change(&Change{version: fmt.Sprintf("v%d", o.clock), world: w})
	close(o.changed)
	o.changed = make(chan struct{})
}

// Set adds or replaces resources of a view.
func (o *StateOrigin) Set(view string, resources ...proto.Message) {
	o.Update(view, func(c *Change) { c.Set(resources...) })
}

// Remove removes resources of a view.
func (o *StateOrigin) Remove(view, typeURL string, names ...string) {
	o.Update(view, func(c *Change) { c.Remove(typeURL, names...) })
}

// Random is a source of small numbers: *rand.Rand of math/rand/v2 is one.
type Random interface {
	// IntN returns a number of [0, n).
	IntN(n int) int
}

// Mutate makes one random change to a view: up to four of the resources of
// universe (type URL, names) get new content or go, at one stroke.
func (o *StateOrigin) Mutate(view string, random Random, universe map[string][]string) {
	types := slices.Sorted(maps.Keys(universe))
	o.Update(view, func(c *Change) {
		for range 1 + random.IntN(4) {
			typeURL := types[random.IntN(len(types))]
			name := universe[typeURL][random.IntN(len(universe[typeURL]))]
			if random.IntN(3) == 0 {
				c.Remove(typeURL, name)
			} else {
				c.Set(syntheticAs(typeURL, name, o.clock))
			}
		}
	})
}

// syntheticAs is a synthetic resource that goes by the name also where its body
// does not hold it.
func syntheticAs(typeURL, name string, salt int) proto.Message {
	m := Synthetic(typeURL, name, salt)
	if xdsclient.V3TypeOf(typeURL) == VirtualHostType || typeURL == LbEndpointType {
		return Named{Message: m, Name: name}
	}
	return m
}

// visible is what a subscription covers now.
func (o *StateOrigin) visible(view, typeURL string, wild bool, names map[string]bool) map[string]entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make(map[string]entry)
	for n, e := range o.views[view][typeURL] {
		if wild || Covers(names, n) {
			out[n] = e
		}
	}
	return out
}

// changes is closed at the next change. Asked for before the state is read, it
// cannot miss one. clock is the number of the change before.
func (o *StateOrigin) changes() (next <-chan struct{}, clock int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed, o.clock
}

// Settle waits until all that there is has been sent to the clients that want it
// and was answered, at most for d, and reports whether it is so.
func (o *StateOrigin) Settle(d time.Duration) bool {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if o.settled() {
			return true
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return o.settled()
		}
	}
}

func (o *StateOrigin) settled() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.open {
		if p.clock < o.clock || p.unanswered > 0 {
			return false
		}
	}
	return true
}

// report notes how far a stream is.
func (o *StateOrigin) report(s *stateStream, p progress) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open[s] = p
}

func (o *StateOrigin) forget(s *stateStream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, s)
}

func (o *StateOrigin) count(add func(*Counts)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	add(&o.counts)
}

// wrapped is the resource as delta carries it.
func (e entry) wrapped(name string) *discoveryv3.Resource {
	if e.envelope == nil {
		return &discoveryv3.Resource{Name: name, Version: e.version, Resource: e.body}
	}
	r := proto.CloneOf(e.envelope)
	r.Version = e.version
	return r
}

// inSotW is the resource as SotW carries it: bare where the envelope says
// nothing that SotW has another place for.
func (e entry) inSotW() *anypb.Any {
	if e.envelope == nil {
		return e.body
	}
	more := proto.CloneOf(e.envelope)
	more.Name, more.Version, more.Resource = "", "", nil
	if proto.Size(more) == 0 {
		return e.body
	}
	return Any(e.envelope)
}
