package relay_test

import (
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// crossing lets a change of what the origin serves cross a request of the relay:
// then go-control-plane may go on from what was wanted before.
type crossing struct {
	mu sync.Mutex
	// Guarded by mu.
	direct map[streamID]bool // streams that are those of clients
	armed  string            // the type of the request that is waited for, "" for none
	change func()
	done   chan struct{}
	// dropped are names that a stream of the relay has dropped, and again those of
	// them that it wanted again since their last change (delta).
	dropped map[droppedName]bool
	again   map[resourceName]bool
}

// streamID tells streams apart: each variant numbers its own.
type streamID struct {
	delta  bool
	number int64
}

type resourceName struct{ typeURL, name string }

type droppedName struct {
	stream int64
	resourceName
}

func newCrossing() crossing {
	return crossing{direct: map[streamID]bool{}, dropped: map[droppedName]bool{}, again: map[resourceName]bool{}}
}

// changes notes that a resource is about to change, or to go.
func (c *crossing) changes(typeURL, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.again, resourceName{typeURL, name})
}

// untold reports whether a resource went before the relay wanted it again: then
// go-control-plane says nothing of it (see "absence-untold"), and the relay may have
// it from a response that crossed the request that dropped it.
func (c *crossing) untold(typeURL, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.again[resourceName{typeURL, name}]
}

// noteLocked follows what a stream of the relay drops and wants again. c.mu must be
// held.
func (c *crossing) noteLocked(stream int64, m *discoveryv3.DeltaDiscoveryRequest) {
	for _, n := range m.GetResourceNamesSubscribe() {
		name := resourceName{m.GetTypeUrl(), n}
		if c.dropped[droppedName{stream, name}] {
			c.again[name] = true
		}
	}
	for _, n := range m.GetResourceNamesUnsubscribe() {
		c.dropped[droppedName{stream, resourceName{m.GetTypeUrl(), n}}] = true
	}
}

// arm makes change cross the next request of the relay that drops something of a
// type.
func (c *crossing) arm(typeURL string, change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.change, c.done = typeURL, change, make(chan struct{})
}

// wait returns after the change, and makes it if the relay drops nothing: others
// may want the same, and the demand lingers.
func (c *crossing) wait(typeURL string) {
	select {
	case <-c.done:
	case <-time.After(5 * time.Millisecond):
		c.fire(typeURL)
	}
}

func (c *crossing) fire(typeURL string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed == typeURL {
		c.armed = ""
		c.change()
		close(c.done)
	}
}

// request looks at what the origin is told.
func (c *crossing) request(stream int64, m proto.Message) {
	var typeURL, node string
	var drops bool
	switch m := m.(type) {
	case *discoveryv3.DeltaDiscoveryRequest:
		typeURL, node, drops = m.GetTypeUrl(), m.GetNode().GetId(), len(m.GetResourceNamesUnsubscribe()) > 0
	case *discoveryv3.DiscoveryRequest:
		typeURL, node, drops = m.GetTypeUrl(), m.GetNode().GetId(), true // it may
	}
	delta, isDelta := m.(*discoveryv3.DeltaDiscoveryRequest)
	id := streamID{isDelta, stream}
	c.mu.Lock()
	if node != "" {
		c.direct[id] = strings.HasSuffix(node, "-direct")
	}
	direct := c.direct[id]
	if isDelta && !direct {
		c.noteLocked(stream, delta)
	}
	c.mu.Unlock()
	if drops && !direct {
		c.fire(typeURL)
	}
}
