package drive

import (
	"slices"
	"sync"
	"sync/atomic"

	"xdsrelay/bench/content"
)

// Counter counts what goes over streams. Its methods may be called from any
// goroutine. The zero Counter has counted nothing.
type Counter struct {
	streams, streamsTotal atomic.Int64
	types                 [len(countedTypes) + 1]typeCounter // the last is for all others

	mu         sync.Mutex
	rejections []string // guarded by mu; at most maxRejections
}

// maxRejections bounds the messages of NACKs that are kept.
const maxRejections = 100

type typeCounter struct{ requests, responses, nacks, bytesIn, bytesOut atomic.Int64 }

var countedTypes = [...]string{content.ClusterURL, content.EndpointURL, content.ListenerURL, content.RouteURL}

// Opened counts a stream.
func (c *Counter) Opened() {
	c.streams.Add(1)
	c.streamsTotal.Add(1)
}

// Closed counts the end of a stream.
func (c *Counter) Closed() { c.streams.Add(-1) }

// Request counts a request of a type, or of none that is known, with the bytes
// of its message.
func (c *Counter) Request(typeURL string, bytes int, nack bool) {
	t := c.of(typeURL)
	t.requests.Add(1)
	t.bytesIn.Add(int64(bytes))
	if nack {
		t.nacks.Add(1)
	}
}

// Rejected keeps the message of a NACK, if it is one of the first.
func (c *Counter) Rejected(message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rejections) < maxRejections {
		c.rejections = append(c.rejections, message)
	}
}

// Responses counts equal responses of a type, with the bytes of one.
func (c *Counter) Responses(typeURL string, n, bytes int) {
	t := c.of(typeURL)
	t.responses.Add(int64(n))
	t.bytesOut.Add(int64(n) * int64(bytes))
}

func (c *Counter) of(typeURL string) *typeCounter {
	for i, t := range countedTypes {
		if t == typeURL {
			return &c.types[i]
		}
	}
	return &c.types[len(countedTypes)]
}

// fill puts the counts into stats.
func (c *Counter) fill(s *Stats) {
	c.mu.Lock()
	s.Rejections = slices.Clone(c.rejections)
	c.mu.Unlock()
	s.Streams, s.StreamsTotal = c.streams.Load(), c.streamsTotal.Load()
	for i := range c.types {
		t := &c.types[i]
		n := Counts{
			Requests: t.requests.Load(), Responses: t.responses.Load(), Nacks: t.nacks.Load(),
			BytesIn: t.bytesIn.Load(), BytesOut: t.bytesOut.Load(),
		}
		s.Requests += n.Requests
		s.Responses += n.Responses
		s.Nacks += n.Nacks
		s.BytesIn += n.BytesIn
		s.BytesOut += n.BytesOut
		if i < len(countedTypes) && n != (Counts{}) {
			if s.ByType == nil {
				s.ByType = make(map[string]Counts)
			}
			s.ByType[countedTypes[i]] = n
		}
	}
}
