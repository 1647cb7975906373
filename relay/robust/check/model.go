package check

import (
	"maps"
	"slices"
	"time"

	"xdsrelay/relay/robust/record"
)

// Model is what a recording says up to a point.
type Model struct {
	begun     bool
	rest      int // number of the last time of rest
	histories map[resourceID]*history
	names     map[kind][]string            // names that the origin ever had
	failed    map[resourceID]time.Duration // when a client was first sent an error of it
	// withdrawn: when the origin said to nodes that it is gone, within the last times.
	withdrawn map[resourceID][]time.Duration
	changed   map[kind]int               // number of the origin's last change
	upstream  map[int]string             // the origin's open streams: key
	asked     map[nodeKind]time.Duration // when a client first asked the node for that since it started
	said      map[kind]time.Duration     // when the origin sent something last
	clients   map[string]*client         // by name
	streams   map[int]*stream            // open ones of clients
	nodes     map[string]*nodeStatus     // by name
}

// kind is a type of one key.
type kind struct{ key, typeURL string }

// nodeKind is a type of one key at one node, or at [anyNode].
type nodeKind struct {
	node string
	kind
}

const anyNode = ""

// resourceID is a resource of one key.
type resourceID struct {
	kind
	name string
}

// nodeStatus is when a node was down.
type nodeStatus struct {
	down bool
	// lastUp is the number of the event that ended the last time; without meaning
	// while down.
	lastUp int
}

func newModel() *Model {
	return &Model{
		histories: make(map[resourceID]*history), names: make(map[kind][]string),
		failed: make(map[resourceID]time.Duration), withdrawn: make(map[resourceID][]time.Duration), changed: make(map[kind]int), upstream: make(map[int]string), asked: make(map[nodeKind]time.Duration), said: make(map[kind]time.Duration), clients: make(map[string]*client),
		streams: make(map[int]*stream), nodes: make(map[string]*nodeStatus),
	}
}

// apply takes an event in.
func (m *Model) apply(e *record.Event) {
	switch e.Kind {
	case record.OriginState:
		m.state(e)
	case record.OriginOpen:
		m.upstream[e.Stream] = e.Key
	case record.OriginEnd:
		delete(m.upstream, e.Stream)
	case record.OriginSent:
		m.said[kind{e.Key, e.Type}] = e.At
		m.reach(e, awaitingACK)
		m.withdraw(e)
	case record.OriginAcked:
		m.reach(e, acked)
	case record.ClientNew:
		m.clients[e.Client] = newClient(e)
	case record.ClientAway, record.ClientBack:
		if c := m.clients[e.Client]; c != nil {
			c.away = e.Kind == record.ClientAway
		}
	case record.ClientOpen:
		if c := m.clients[e.Client]; c != nil {
			c.stream = &stream{node: e.Node, client: c, opened: e.Seq, openedAt: e.At, types: make(map[string]*told)}
			m.streams[e.Stream] = c.stream
			for typeURL := range c.wants {
				for _, node := range []string{e.Node, anyNode} {
					of := nodeKind{node, kind{c.key, typeURL}}
					if _, before := m.asked[of]; !before {
						m.asked[of] = e.At
					}
				}
			}
		}
	case record.ClientGot:
		if s := m.streams[e.Stream]; s != nil {
			s.client.take(s, e)
			for _, name := range e.Errors {
				id := resourceID{kind{s.client.key, e.Type}, name}
				if _, ever := m.failed[id]; !ever {
					m.failed[id] = e.At
				}
			}
		}
	case record.ClientEnd:
		if s := m.streams[e.Stream]; s != nil {
			delete(m.streams, e.Stream)
			if s.client.stream == s {
				s.client.stream = nil
			}
		}
	case record.Begin:
		m.begun = true
	case record.NodeDown:
		m.node(e.Node).down = true
	case record.NodeUp:
		*m.node(e.Node) = nodeStatus{lastUp: e.Seq}
		maps.DeleteFunc(m.asked, func(at nodeKind, _ time.Duration) bool { return at.node == e.Node })
	case record.Rest:
		m.rest = e.Seq
	}
}

func (m *Model) node(name string) *nodeStatus {
	if m.nodes[name] == nil {
		m.nodes[name] = &nodeStatus{}
	}
	return m.nodes[name]
}

// state takes a change of the origin's in.
func (m *Model) state(e *record.Event) {
	of := kind{e.Key, e.Type}
	m.changed[of] = e.Seq
	for _, r := range e.Resources {
		id := resourceID{of, r.Name}
		h := m.histories[id]
		if h == nil {
			h = &history{}
			if m.begun {
				h.add(absent, 0)
			}
			m.histories[id] = h
			m.names[of] = append(m.names[of], r.Name)
		}
		h.add(r.Serial, e.At)
	}
}

// reach notes how far the resources of a response got.
func (m *Model) reach(e *record.Event, how reach) {
	for _, r := range e.Resources {
		m.histories[resourceID{kind{e.Key, e.Type}, r.Name}].reach(r.Serial, how)
	}
}

// withdraw notes what a response of the origin's says to be gone.
func (m *Model) withdraw(e *record.Event) {
	of := kind{e.Key, e.Type}
	names := e.Removed
	if !e.Delta && fullState(e.Type) {
		names = slices.DeleteFunc(slices.Clone(m.names[of]), func(name string) bool {
			return slices.ContainsFunc(e.Resources, func(r record.Resource) bool { return r.Name == name })
		})
	}
	for _, name := range names {
		id := resourceID{of, name}
		recent := slices.DeleteFunc(m.withdrawn[id], func(at time.Duration) bool { return at+restores < e.At })
		m.withdrawn[id] = append(recent, e.At)
	}
}

// wanted is what the origin has of what a client subscribes to: serials by name.
func (m *Model) wanted(c *client, typeURL string) map[string]int {
	of := kind{c.key, typeURL}
	names := c.wants[typeURL]
	if len(names) == 0 {
		names = m.names[of]
	}
	out := make(map[string]int)
	for _, n := range names {
		if h := m.histories[resourceID{of, n}]; h != nil && h.last() != absent {
			out[n] = h.last()
		}
	}
	return out
}

// Streams counts the origin's open streams by key.
func (m *Model) Streams() map[string]int {
	count := make(map[string]int)
	for _, key := range m.upstream {
		count[key]++
	}
	return count
}

// keys tells of each key that has clients whether any of them is there.
func (m *Model) keys() map[string]bool {
	keys := make(map[string]bool)
	for _, c := range m.clients {
		keys[c.key] = keys[c.key] || !c.away
	}
	return keys
}

// silent reports whether the origin has said nothing of a type to a node for so long that what
// nobody there has counts as absent (C12). Until the first time of rest what it has said may not
// have arrived, and nodes may have asked for one another.
func (m *Model) silent(s *stream, typeURL string, now time.Duration) bool {
	of := kind{s.client.key, typeURL}
	if m.rest == 0 {
		return now-m.asked[nodeKind{anyNode, of}] >= absentAfter
	}
	asked := m.asked[nodeKind{s.node, of}]
	return now-asked >= absentAfter && m.said[of] < asked
}
