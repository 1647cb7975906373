package robust

import (
	"context"
	"fmt"
	"time"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

const (
	// servedWithin is how long a client may wait for its first configuration from a node
	// that is ready, while another node of the tier has it. The product promises two
	// seconds; a machine that is busy with all processes of a run takes longer.
	servedWithin = 15 * time.Second
	// calmAfter is how long after a fault nodes may not know one another.
	calmAfter = 10 * time.Second
	// longestLook is what a look counts at most: if this process did not run for longer,
	// the nodes may not have, either.
	longestLook = 250 * time.Millisecond
)

// served judges whether each client gets its first configuration while any node has it,
// also while the control plane is away. It belongs to the goroutine of its test.
type served struct {
	nodes   map[string]*Node
	faulty  map[string]int           // by node: faults that last and keep it from others
	since   map[string]time.Duration // by node: the end of the last one
	clients map[string]*servedClient
	last    time.Duration
	longest time.Duration // that a client waited
}

// servedClient is a client with its stream.
type servedClient struct {
	key  string
	node string // empty while it has no stream
	// waits are for how long it has waited on this stream, by the URLs of the types of
	// which it has had nothing yet on any stream. To what it resumes there may be nothing
	// to say, and so of types that are asked for by name.
	waits    map[string]time.Duration
	answered map[string]bool // on this stream, by type URL
}

func newServed(nodes []*Node) *served {
	s := &served{nodes: make(map[string]*Node), faulty: make(map[string]int), since: make(map[string]time.Duration), clients: make(map[string]*servedClient)}
	for _, n := range nodes {
		s.nodes[n.name] = n
	}
	return s
}

// trouble notes that a fault begins or ends. Nodes serve without the control plane, and
// while others end and start on purpose, so faults of these kinds excuse nothing.
func (s *served) trouble(f chosen, begins bool, now time.Duration) {
	if f.area == originArea || f.area == severalAreas && f.node < 0 {
		return
	}
	for name := range s.nodes {
		if f.node >= 0 && name != nodeName(f.node) && (f.area == processArea || f.area == severalAreas) {
			continue
		}
		if begins {
			s.faulty[name]++
		} else {
			s.faulty[name]--
		}
		s.since[name] = now
	}
}

func (s *served) observe(e *record.Event) {
	c := s.clients[e.Client]
	switch e.Kind {
	case record.ClientNew:
		c = &servedClient{key: e.Key, waits: make(map[string]time.Duration)}
		for typeURL := range e.Wants {
			if xdstest.FullState(typeURL) {
				c.waits[typeURL] = 0
			}
		}
		s.clients[e.Client] = c
	case record.ClientOpen:
		c.node, c.answered = e.Node, make(map[string]bool)
		for typeURL := range c.waits {
			c.waits[typeURL] = 0
		}
	case record.ClientEnd:
		c.node = ""
	case record.ClientGot:
		s.longest = max(s.longest, c.waits[e.Type])
		delete(c.waits, e.Type)
		c.answered[e.Type] = true
	}
}

// look judges how it is now.
func (s *served) look(now time.Duration) (found []check.Contradiction) {
	passed := min(now-s.last, longestLook)
	s.last = now
	for name, c := range s.clients {
		if c.node == "" {
			continue
		}
		for typeURL := range c.waits {
			holder := s.holder(c, typeURL, now)
			if holder == "" {
				c.waits[typeURL] = 0
				continue
			}
			c.waits[typeURL] += passed
			if c.waits[typeURL] <= servedWithin {
				continue
			}
			if _, err := s.nodes[c.node].get(context.Background(), "/readyz"); err != nil {
				c.waits[typeURL] = 0 // clients are not sent to it
				continue
			}
			found = append(found, check.Contradiction{
				Guarantee: "Served", Event: record.Event{At: now, Client: name, Node: c.node, Key: c.key, Type: typeURL},
				Text: fmt.Sprintf("client %s has no %s from node %s, which is ready, for %s, though %s has it", name, record.ShortType(typeURL), c.node, c.waits[typeURL], holder),
			})
		}
	}
	return found
}

// holder is a node that the client's node can have a type from: one from which another
// client of the key has it. Empty for none.
func (s *served) holder(c *servedClient, typeURL string, now time.Duration) string {
	if !s.calm(c.node, now) {
		return ""
	}
	for _, other := range s.clients {
		if other.key == c.key && other.node != "" && other.answered[typeURL] && s.calm(other.node, now) {
			return other.node
		}
	}
	return ""
}

// calm reports whether a node has been well for some time.
func (s *served) calm(node string, now time.Duration) bool {
	at, ok := s.since[node]
	return s.faulty[node] == 0 && (!ok || now-at > calmAfter)
}
