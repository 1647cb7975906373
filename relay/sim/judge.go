package sim

import (
	"fmt"
	"maps"
	"time"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// Bounds of what is judged here.
const (
	// servedWithin is how long a stream to a node that is ready may stay without its
	// first answer while another node that it reaches has it.
	servedWithin = 2 * time.Second
	// anywhereWithin is how long a client that goes from node to node may stay without
	// configuration while there is a node that could serve it: for each node that cannot,
	// the time until the client is sent away (downstream.upstream_timeout).
	anywhereWithin = time.Minute
	// calm is how long ago the last trouble of two nodes is when both must know what the
	// other has: a lease, and the time of a round of hints.
	calm = 15 * time.Second
)

// judge is the validators that look at the world as well as at the recording.
type judge struct {
	world    *World
	baseline int // goroutines before there were clients
	counts   Counts

	histories  map[resourceID]*history
	changed    map[resourceID]time.Duration // when it was last changed at the control plane
	asked      map[string]time.Duration     // by key: when a node last opened a stream to the control plane
	clients    map[string]*view             // by name
	troubled   map[string]time.Time
	parted     map[string]time.Time      // when a way from or to a host was last troubled, or a part of the world other than a node
	stalled    map[string]time.Time      // when a way between a node and the control plane began or ended to be stalled
	overtaken  map[string]bool           // nodes of which clients may still get older content than they have; see lookAtLate
	slowed     map[string]time.Time      // when a way between a node and the clients was last troubled
	reached    map[string]*reached       // by node, as long as it runs
	outage     time.Duration             // for how long the control plane has been away
	successors map[resourceID]successors // by key and type
	had        map[want]time.Time        // when a node last had a type for a client
	claims     map[string]claim          // by key
	ended      map[string]time.Time      // when a node last ended
	blackout   blackout
	first      map[want]time.Time // when a client of a key first had a stream to a node that runs
	holders    holders
	orphans    []orphan
	empty      map[resourceID]emptying // by key and type: when the control plane had nothing the last time
	last       time.Time               // of the last look
	exposures  map[string]*exposure    // by key
	revisedAt  map[string]time.Time    // by key: when the control plane last changed what rollouts release
	removed    map[nodeResource]int    // as what a node has last removed a resource from a client
	unchecked  map[int]bool            // serials of resources that all clients may get; see exposure.passed
}

// resourceID is a resource of a key.
type resourceID struct{ key, typeURL, name string }

// nodeResource is a resource of a key on a node.
type nodeResource struct {
	node string
	resourceID
}

// view is what the judge knows of a client.
type view struct {
	client  *record.Event              // that there is one
	held    map[string]map[string]bool // names by type URL
	version map[string]string          // of the newest response, by type URL
	past    map[resourceID]int         // how far in its history each resource is that it was ever sent
	cold    map[string]time.Duration   // types of which it never got anything: for how long it could have
	stream  *stream                    // nil while it has none
	away    bool
}

// stream is one stream of a client.
type stream struct {
	node     string
	opened   time.Time
	answered map[string]time.Time     // by type URL: the last response
	has      map[resourceID]int       // how far in its history each resource is that its node has for sure
	waits    map[string]time.Duration // by type URL: for how long it could have been answered
	rejected map[string]bool          // by type URL: whether the client has rejected a response
}

// answers reports whether a type has been answered.
func (s *stream) answers(typeURL string) bool { return !s.answered[typeURL].IsZero() }

func newJudge(w *World) *judge {
	return &judge{
		world: w, histories: make(map[resourceID]*history), changed: make(map[resourceID]time.Duration), asked: make(map[string]time.Duration), clients: make(map[string]*view), troubled: make(map[string]time.Time),
		empty: make(map[resourceID]emptying), last: time.Now(), parted: make(map[string]time.Time), stalled: make(map[string]time.Time), slowed: make(map[string]time.Time), overtaken: make(map[string]bool), holders: newHolders(),
		reached: make(map[string]*reached), successors: make(map[resourceID]successors), had: make(map[want]time.Time),
		removed: make(map[nodeResource]int),
		claims:  make(map[string]claim), ended: make(map[string]time.Time), first: make(map[want]time.Time),
		exposures: make(map[string]*exposure), revisedAt: make(map[string]time.Time), unchecked: make(map[int]bool),
	}
}

// observe takes an event in.
func (j *judge) observe(e *record.Event) []check.Contradiction {
	c := j.clients[e.Client]
	switch e.Kind {
	case record.OriginState:
		j.revised(e)
		for _, r := range e.Resources {
			id := resourceID{e.Key, e.Type, r.Name}
			if j.histories[id] == nil {
				j.histories[id] = &history{}
			}
			j.histories[id].add(r.Serial, e.At, len(j.world.originBy) > 0)
			j.changed[id] = e.At
			j.emptied(e)
		}
	case record.OriginOpen:
		j.asked[e.Key] = e.At
	case record.OriginSent:
		for _, r := range e.Resources {
			if h := j.histories[resourceID{e.Key, e.Type, r.Name}]; h != nil {
				h.serve(r.Serial)
			}
		}
		for id, h := range j.histories {
			if id.key == e.Key && id.typeURL == e.Type && j.lacks(id) {
				h.serve(absent)
			}
		}
	case record.OriginAcked:
		for _, r := range e.Resources {
			if h := j.histories[resourceID{e.Key, e.Type, r.Name}]; h != nil {
				h.ack(r.Serial)
			}
		}
	case record.NodeDown, record.NodeUp:
		j.trouble(e.Node)
		if e.Why != cutOffWhy {
			j.restarted(e)
		}
	case record.ClientNew:
		j.clients[e.Client] = newView(e)
	case record.ClientAway, record.ClientBack:
		c.away = e.Kind == record.ClientAway
	case record.ClientOpen:
		j.counts.Streams++
		if w := (want{node: e.Node, key: c.client.Key}); j.first[w].IsZero() {
			j.first[w] = time.Now()
		}
		c.stream = &stream{node: e.Node, opened: time.Now(), answered: make(map[string]time.Time), has: make(map[resourceID]int), waits: make(map[string]time.Duration), rejected: make(map[string]bool)}
	case record.ClientEnd:
		s := c.stream
		c.stream = nil
		j.left(e)
		if e.Unserved && s != nil {
			return j.turnedAway(c, s, e)
		}
	case record.ClientRejected:
		return j.rejected(c, e)
	case record.ClientGot:
		j.counts.Messages++
		found := append(j.sentBack(c, e), j.unguarded(c, e)...)
		j.orphaned(c, e)
		j.holders.note(c, e, j.late(e.Node))
		c.take(e)
		return found
	}
	j.holders.note(c, e, j.late(e.Node))
	return nil
}

func newView(e *record.Event) *view {
	v := &view{client: e, held: make(map[string]map[string]bool), version: make(map[string]string), past: make(map[resourceID]int), cold: make(map[string]time.Duration)}
	for typeURL := range e.Wants {
		v.held[typeURL] = make(map[string]bool)
		if xdstest.FullState(typeURL) { // of others there may be nothing to say
			v.cold[typeURL] = 0
		}
	}
	return v
}

// restarted notes that a node has ended, or has started.
func (j *judge) restarted(e *record.Event) {
	delete(j.reached, e.Node)
	if e.Kind == record.NodeUp {
		return
	}
	j.handedOver(e)
	j.ended[e.Node] = time.Now()
	maps.DeleteFunc(j.first, func(w want, _ time.Time) bool { return w.node == e.Node })
	j.blackedOut()
}

// take makes a response part of what the client has.
func (v *view) take(e *record.Event) {
	if v.stream != nil {
		v.stream.answered[e.Type] = time.Now()
	}
	delete(v.cold, e.Type)
	v.version[e.Type] = e.Version
	for _, name := range v.gone(e) {
		delete(v.held[e.Type], name)
	}
	for _, r := range e.Resources {
		v.held[e.Type][r.Name] = true
	}
}

// gone are the names that a response takes from the client.
func (v *view) gone(e *record.Event) []string {
	gone := e.Removed
	if e.Delta || !xdstest.FullState(e.Type) {
		return gone
	}
	has := make(map[string]bool, len(e.Resources))
	for _, r := range e.Resources {
		has[r.Name] = true
	}
	for name := range v.held[e.Type] {
		if !has[name] {
			gone = append(gone, name)
		}
	}
	return gone
}

// part notes that something is or was wrong with the ways of hosts, or with hosts other than
// nodes.
func (j *judge) part(names ...string) {
	for _, name := range names {
		j.parted[name] = time.Now()
	}
	j.trouble(names...)
}

// trouble notes that something is or was wrong with hosts.
func (j *judge) trouble(names ...string) {
	for _, name := range names {
		j.troubled[name] = time.Now()
	}
}

// calm reports whether hosts have been well for some time, and are.
func (j *judge) calm(names ...string) bool {
	for _, name := range names {
		if at, ok := j.troubled[name]; ok && time.Since(at) < calm {
			return false
		}
	}
	for i, a := range names {
		for _, b := range names[i+1:] {
			if !j.world.network.fine(a, b) {
				return false
			}
		}
	}
	return true
}

// onTheWay is longer than anything takes between a node and a client whose network is slow, or
// was so when it was sent.
const onTheWay = 3 * time.Second

// late reports whether what a node sends its clients may have been sent some time ago when it
// gets there.
func (j *judge) late(node string) bool {
	at, ever := j.slowed[node]
	return !j.world.network.fine(node, clientsHost) || ever && time.Since(at) < onTheWay
}

// running reports whether a node runs.
func (j *judge) running(name string) bool {
	n := j.world.node(name)
	return n != nil && n.relay != nil
}

// serves reports whether the node of a stream still runs since the stream was opened: a client notices
// late that a node has lost its power, and that may run again by then.
func (j *judge) serves(s *stream) bool {
	return s != nil && j.running(s.node) && !j.world.node(s.node).since.After(s.opened)
}

// found is a contradiction at an event.
func found(guarantee string, e *record.Event, format string, args ...any) []check.Contradiction {
	return []check.Contradiction{{Guarantee: guarantee, Event: *e, Text: fmt.Sprintf(format, args...)}}
}
