package demo

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"

	"xdsrelay/relay/pause"
	"xdsrelay/relay/xdsclient"
)

// client is one simulated xDS client: an automatic one, or one for each type, that is made
// to follow what its resources refer to, as a proxy would.
type client struct {
	// Fixed after construction.
	id, key string
	kind    *kind
	service string        // the listener that it dials, for kinds that do
	slow    time.Duration // how long it takes over each response
	library *library

	mu sync.Mutex
	// Guarded by mu, which is locked before any lock of an automatic client.
	streams  []*xdsclient.Client
	asked    map[string][]string // names by type, sorted
	held     map[ref]holding
	rejected map[ref]error
	news     []receipt // since collect was called
	refused  int       // resources that it has rejected, in all
	relay    string
}

// holding is a resource in a client's hands.
type holding struct {
	*facts
	at time.Time
}

// receipt is a resource that a client got, or, without facts, lost.
type receipt struct {
	ref
	*facts
	at time.Time
}

// start connects to the first of some relays that it reaches, and stays connected until
// stop.
func (c *client) start(life context.Context, addrs []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	types := []string{""} // the aggregated service
	if c.kind.perType {
		types = c.kind.types
	}
	for _, t := range types {
		stream, err := xdsclient.Start(c.config(life, t, addrs))
		if err != nil {
			return fmt.Errorf("client %s: %w", c.id, err)
		}
		c.streams = append(c.streams, stream)
	}
	for t := range c.kind.all {
		if s := c.streamOfLocked(t); s != nil {
			s.Subscribe(t)
		}
	}
	c.followLocked()
	return nil
}

// config is that of a stream for all types, or for the one of a service.
func (c *client) config(life context.Context, service string, addrs []string) xdsclient.Config {
	cfg := xdsclient.Config{
		Addr:    addrs[0],
		Variant: xdsclient.Variant{Delta: c.kind.delta, Service: service},
		Node:    &corev3.Node{Id: c.id, Cluster: c.key, UserAgentName: "xdsrelay demo: " + c.kind.name},
		Watch: func(e xdsclient.Event) {
			if e.Frame != nil {
				pause.For(life, c.slow)
			}
		},
		Reject: func(typeURL string, r xdsclient.Resource) string {
			if wrong := c.library.look(typeURL, r.Body.GetValue()).wrong; wrong != nil {
				return wrong.Error()
			}
			return ""
		},
		BeforeAck: func(_ context.Context, f *xdsclient.Frame) { c.take(f) },
		// The response before it is answered then.
		BeforeRead: func(context.Context) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.followLocked()
		},
	}
	if len(addrs) > 1 {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithContextDialer(c.dialFirst(addrs)))
	}
	return cfg
}

// stop ends the client. What it holds can still be asked for.
func (c *client) stop() {
	c.mu.Lock()
	streams := c.streams
	c.mu.Unlock()
	for _, s := range streams {
		s.Close()
	}
}

// dialFirst connects to the first of some relays that it reaches, and notes which it is.
func (c *client) dialFirst(addrs []string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (conn net.Conn, err error) {
		for _, addr := range addrs {
			if conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr); err == nil {
				c.mu.Lock()
				c.relay = addr
				c.mu.Unlock()
				return conn, nil
			}
		}
		return nil, err
	}
}

// connectedTo is the relay of several that it connected to last.
func (c *client) connectedTo() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.relay
}

// streamOfLocked is the stream for a type; nil if the client has no use for the type.
func (c *client) streamOfLocked(typeURL string) *xdsclient.Client {
	switch i := slices.Index(c.kind.types, typeURL); {
	case i < 0 || len(c.streams) == 0:
		return nil
	case c.kind.perType:
		return c.streams[i]
	default:
		return c.streams[0]
	}
}

// take notes when what a response holds has come, and what it leads to.
func (c *client) take(f *xdsclient.Frame) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	has := c.streamOfLocked(f.TypeURL).Held(f.TypeURL)
	for _, r := range f.Resources {
		if r.Body == nil {
			continue
		}
		at, learnt := ref{f.TypeURL, r.Name}, c.library.look(f.TypeURL, r.Body.GetValue())
		if learnt.wrong != nil {
			c.rejected[at] = learnt.wrong
			c.refused++
		} else if _, ok := has[r.Name]; ok {
			delete(c.rejected, at)
			c.held[at] = holding{learnt, now}
			c.news = append(c.news, receipt{at, learnt, now})
		}
	}
	for at := range c.held {
		if _, ok := has[at.name]; !ok && at.typeURL == f.TypeURL {
			c.dropLocked(at, now)
		}
	}
}

func (c *client) dropLocked(at ref, now time.Time) {
	delete(c.rejected, at)
	if _, ok := c.held[at]; ok {
		delete(c.held, at)
		c.news = append(c.news, receipt{at, nil, now})
	}
}

// followLocked asks for what the client has come to want, and drops what nothing refers
// to any more.
func (c *client) followLocked() {
	now := time.Now()
	for _, t := range c.kind.types {
		all, names := c.kind.wants(t, c.service, func(yield func(*facts) bool) {
			for _, h := range c.held {
				if !yield(h.facts) {
					return
				}
			}
		})
		old := c.asked[t]
		if all || slices.Equal(old, names) {
			continue
		}
		c.asked[t] = names
		if more := without(names, old...); len(more) > 0 {
			c.streamOfLocked(t).Subscribe(t, more...)
		}
		if fewer := without(old, names...); len(fewer) > 0 {
			c.streamOfLocked(t).Unsubscribe(t, fewer...)
			for _, name := range fewer {
				c.dropLocked(ref{t, name}, now)
			}
		}
	}
}

// without is a new list without some.
func without[T comparable](all []T, some ...T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return slices.Contains(some, one) })
}

// collect takes what the client has received since the last time.
func (c *client) collect() []receipt {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := c.news
	c.news = nil
	return news
}

// holds returns what the client holds now.
func (c *client) holds() map[ref]holding {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.held)
}

// openStreams counts the streams that the client has, and says why it lacks one.
func (c *client) openStreams() (n int, trouble error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams {
		if s.Connected() {
			n++
		} else {
			trouble = s.Stats().LastEnd
		}
	}
	return n, trouble
}

// responses is how many messages the client has been sent.
func (c *client) responses() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams {
		n += s.Stats().Frames
	}
	return n
}

func (c *client) rejects(r ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rejected[r] != nil
}

// hasRejected reports whether the client has ever rejected a resource.
func (c *client) hasRejected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused > 0
}
