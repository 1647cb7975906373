package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// client is one simulated xDS client. It holds what it was given, as a proxy
// would, and follows what that refers to.
type client struct {
	// Fixed after construction.
	id, key string
	kind    *kind
	service string        // the listener that it dials, for kinds that do
	slow    time.Duration // how long it takes over each response
	library *library

	mu sync.Mutex
	// Guarded by mu.
	held     map[ref]holding
	rejected map[ref]error
	streams  []*stream // those that are open
	news     []receipt // since take was called
	counts   counts
	trouble  error // why it has no stream, if it should
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

// counts are what a client has seen on the wire.
type counts struct{ responses, bytes, resources, nacks uint64 }

func (c *counts) add(o counts) {
	c.responses += o.responses
	c.bytes += o.bytes
	c.resources += o.resources
	c.nacks += o.nacks
}

// run connects to the first of some relays that it reaches, and stays connected until ctx
// ends.
func (c *client) run(ctx context.Context, addrs []string) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1 << 30)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: 10 * time.Second}),
	}
	if len(addrs) > 1 {
		options = append(options, grpc.WithContextDialer(c.dialFirst(addrs)))
	}
	conn, err := grpc.NewClient("passthrough:///"+addrs[0], options...)
	if err != nil {
		c.lost(err)
		return
	}
	defer conn.Close()
	var all sync.WaitGroup
	if !c.kind.perType {
		all.Go(func() { c.keepStream(ctx, conn, c.kind.types) })
	} else {
		for i := range c.kind.types {
			all.Go(func() { c.keepStream(ctx, conn, c.kind.types[i:i+1]) })
		}
	}
	all.Wait()
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

// keepStream opens a stream for the types, again and again.
func (c *client) keepStream(ctx context.Context, conn *grpc.ClientConn, types []string) {
	for {
		err := c.follow(ctx, conn, types)
		if ctx.Err() != nil {
			return
		}
		c.lost(err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

func (c *client) lost(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = err
}

// follow lives one stream.
func (c *client) follow(ctx context.Context, conn *grpc.ClientConn, types []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wire, err := openWire(ctx, conn, c.kind, types)
	if err != nil {
		return err
	}
	s := &stream{wire: wire, types: types, asked: make(map[string]*subscription)}
	c.mu.Lock()
	c.streams = append(c.streams, s)
	c.trouble = nil
	err = c.subscribeLocked(s)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.streams = slices.DeleteFunc(c.streams, func(o *stream) bool { return o == s })
	}()
	for err == nil {
		var r *response
		if r, err = wire.receive(); err != nil {
			break
		}
		if c.slow > 0 {
			select {
			case <-time.After(c.slow):
			case <-ctx.Done():
			}
		}
		err = c.take(s, r)
	}
	return err
}

// take takes over a response, answers it, and asks for what it leads to.
func (c *client) take(s *stream, r *response) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	sub := s.asked[r.typeURL]
	if sub == nil {
		return fmt.Errorf("a response of type %s, which was not asked for", r.typeURL)
	}
	wrong := c.applyLocked(r)
	c.counts.add(counts{responses: 1, bytes: uint64(r.size), resources: uint64(len(r.bodies))})
	if wrong == nil {
		sub.version = r.version
	} else {
		c.counts.nacks++
	}
	sub.nonce = r.nonce
	if err := s.wire.answer(r.typeURL, sub, wrong); err != nil {
		return err
	}
	c.forgetLocked()
	for _, o := range c.streams {
		if err := c.subscribeLocked(o); err != nil && o == s {
			return err // other streams learn it themselves
		}
	}
	return nil
}

// applyLocked stores what a response holds. It returns why resources in it are
// rejected; the others count.
func (c *client) applyLocked(r *response) error {
	now := time.Now()
	var wrong []error
	for name, body := range r.bodies {
		at, f := ref{r.typeURL, name}, c.library.look(r.typeURL, body)
		if f.wrong != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, f.wrong))
			c.rejected[at] = f.wrong
			continue
		}
		delete(c.rejected, at)
		c.held[at] = holding{f, now}
		c.news = append(c.news, receipt{at, f, now})
	}
	removed := r.removed
	if r.whole {
		for at := range c.held {
			if _, ok := r.bodies[at.name]; !ok && at.typeURL == r.typeURL {
				removed = append(removed, at.name)
			}
		}
	}
	for _, name := range removed {
		c.dropLocked(ref{r.typeURL, name}, now)
	}
	return errors.Join(wrong...)
}

func (c *client) dropLocked(at ref, now time.Time) {
	delete(c.rejected, at)
	if _, ok := c.held[at]; ok {
		delete(c.held, at)
		c.news = append(c.news, receipt{at, nil, now})
	}
}

// forgetLocked drops what nothing refers to any more.
func (c *client) forgetLocked() {
	now := time.Now()
	for _, t := range c.kind.types {
		if all, names := c.wantsLocked(t); !all {
			for at := range c.held {
				if at.typeURL == t && !slices.Contains(names, at.name) {
					c.dropLocked(at, now)
				}
			}
		}
	}
}

func (c *client) wantsLocked(typeURL string) (all bool, names []string) {
	return c.kind.wants(typeURL, c.service, func(yield func(*facts) bool) {
		for _, h := range c.held {
			if !yield(h.facts) {
				return
			}
		}
	})
}

// subscribeLocked asks for what the client has come to want on a stream.
func (c *client) subscribeLocked(s *stream) error {
	for _, t := range s.types {
		all, names := c.wantsLocked(t)
		sub := s.asked[t]
		switch {
		case sub == nil && !all && len(names) == 0: // an empty list would ask for everything
			continue
		case sub == nil:
			sub = &subscription{}
			s.asked[t] = sub
		case slices.Equal(sub.names, names):
			continue
		}
		old := sub.names
		sub.names = names
		if err := s.wire.subscribe(t, sub, old, c.nodeOnce(s)); err != nil {
			return err
		}
	}
	return nil
}

// nodeOnce is who the client is, for the first request of a stream.
func (c *client) nodeOnce(s *stream) *client {
	if s.introduced {
		return nil
	}
	s.introduced = true
	return c
}

// collect takes what the client has received since the last time.
func (c *client) collect() ([]receipt, counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := c.news
	c.news = nil
	return news, c.counts
}

// holds returns what the client holds now.
func (c *client) holds() map[ref]holding {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.held)
}

func (c *client) openStreams() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams)
}

func (c *client) rejects(r ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rejected[r] != nil
}
