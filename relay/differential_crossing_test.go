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
	direct map[int64]bool // streams that are those of clients
	armed  string         // the type of the request that is waited for, "" for none
	change func()
	done   chan struct{}
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
	c.mu.Lock()
	if node != "" {
		c.direct[stream] = strings.HasSuffix(node, "-direct")
	}
	direct := c.direct[stream]
	c.mu.Unlock()
	if drops && !direct {
		c.fire(typeURL)
	}
}
