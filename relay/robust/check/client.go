package check

import (
	"time"

	"xdsrelay/relay/robust/record"
)

// client is what a recording says of one client.
type client struct {
	name, key string // fixed
	delta     bool   // fixed
	wants     map[string][]string
	held      map[string]map[string]record.Resource // by type URL and name
	since     map[string]map[string]time.Duration   // the same: when it was last sent that
	version   map[string]string                     // by type URL: of the last response
	stream    *stream                               // nil while it has none
	away      bool                                  // it wants none
}

// stream is an open stream of a client.
type stream struct {
	node     string
	client   *client
	opened   int // number of the event
	openedAt time.Duration
	got      int // responses
	types    map[string]*told
}

// told is what a stream has been told of one type.
type told struct {
	responses int
	first     time.Duration // when the first response arrived
	// names: number of the event that told it last.
	names map[string]int
	// errors: names of which it was told that they cannot be had; the resource takes that
	// back (C16).
	errors map[string]bool
	// takenBack: names that were sent again because of errors that other clients may have
	// been sent, once on a stream.
	takenBack map[string]bool
}

func newClient(e *record.Event) *client {
	c := &client{
		name: e.Client, key: e.Key, delta: e.Delta, wants: e.Wants,
		held: make(map[string]map[string]record.Resource), since: make(map[string]map[string]time.Duration), version: make(map[string]string),
	}
	for typeURL := range e.Wants {
		c.held[typeURL] = make(map[string]record.Resource)
		c.since[typeURL] = make(map[string]time.Duration)
	}
	return c
}

// of is what the stream has been told of a type; not nil.
func (s *stream) of(typeURL string) *told {
	if s.types[typeURL] == nil {
		s.types[typeURL] = &told{names: make(map[string]int), errors: make(map[string]bool), takenBack: make(map[string]bool)}
	}
	return s.types[typeURL]
}

// take makes a response part of what the client holds.
func (c *client) take(s *stream, e *record.Event) {
	s.got++
	t := s.of(e.Type)
	if t.responses++; t.responses == 1 {
		t.first = e.At
	}
	if !e.Delta && fullState(e.Type) || c.held[e.Type] == nil {
		c.held[e.Type] = make(map[string]record.Resource, len(e.Resources))
		c.since[e.Type] = make(map[string]time.Duration, len(e.Resources))
	}
	for _, r := range e.Resources {
		c.held[e.Type][r.Name], c.since[e.Type][r.Name] = r, e.At
		t.names[r.Name] = e.Seq
		t.takenBack[r.Name] = t.takenBack[r.Name] || t.errors[r.Name]
		delete(t.errors, r.Name)
	}
	for _, n := range e.Errors {
		t.errors[n] = true
	}
	for _, n := range e.Removed {
		delete(c.held[e.Type], n)
	}
	c.version[e.Type] = e.Version
}

// gone lists the names that a response takes from the client: those that it says
// are removed, and those that a full state leaves out.
func (c *client) gone(e *record.Event) []string {
	gone := e.Removed
	if e.Delta || !fullState(e.Type) {
		return gone
	}
	has := make(map[string]bool, len(e.Resources))
	for _, r := range e.Resources {
		has[r.Name] = true
	}
	for n := range c.held[e.Type] {
		if !has[n] {
			gone = append(gone, n)
		}
	}
	return gone
}

// Types whose responses without delta carry the whole set, so that what they leave
// out is gone, and those that follow one another.
const (
	listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	clusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
)

func fullState(typeURL string) bool { return typeURL == listenerType || typeURL == clusterType }
