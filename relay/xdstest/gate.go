package xdstest

import (
	"context"
	"sync"

	"google.golang.org/grpc"
)

// Gate holds back what goes to and fro on a client's streams, message by message and
// as the test wants it, so that what the two sides say crosses. What the client sends
// while the way is closed counts as sent, and what has come as not read; what is held
// when a stream ends is lost with it. Every client has a Gate of its own.
//
// Where a test lets all that runs come to rest between two steps (synctest.Wait), the
// crossings are those that it has asked for, and come again when it is repeated.
type Gate struct {
	mu      sync.Mutex // guards all below; never held while anything waits
	closed  Direction
	stream  *gatedStream  // the newest
	changed chan struct{} // closed and replaced when responses may go on
	pass    bool          // the response that waits may go on, whatever closed says
	waits   bool          // there is such a response
}

// NewGate makes a gate that is open both ways.
func NewGate() *Gate { return &Gate{changed: make(chan struct{})} }

// Option puts the gate before a client.
func (g *Gate) Option() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		inner, err := streamer(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, err
		}
		s := &gatedStream{ClientStream: inner, gate: g}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.stream = s
		return s, nil
	})
}

// Close closes the way, for messages that are not held yet, too.
func (g *Gate) Close(d Direction) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed |= d
}

// Open opens the way, for all that is held and what comes.
func (g *Gate) Open(d Direction) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed &^= d
	if d&ToServer != 0 && g.stream != nil {
		for g.stream.forwardLocked() {
		}
	}
	if d&ToClient != 0 {
		g.wakeLocked()
	}
}

// Pass lets the oldest message through that is held, and reports whether there is one.
// The way stays closed.
func (g *Gate) Pass(d Direction) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	passed := d&ToServer != 0 && g.stream != nil && g.stream.forwardLocked()
	if d&ToClient != 0 && g.waits {
		g.pass, passed = true, true
		g.wakeLocked()
	}
	return passed
}

// Closed reports which ways are closed.
func (g *Gate) Closed() Direction {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

func (g *Gate) wakeLocked() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// gatedStream is one stream behind a gate.
type gatedStream struct {
	grpc.ClientStream

	gate *Gate
	held []any // what the client has sent and the server will not read yet; guarded by the gate's mu
}

// SendMsg sends m, or keeps it while the way is closed; it must not be changed then.
func (s *gatedStream) SendMsg(m any) error {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	if s.gate.closed&ToServer != 0 {
		s.held = append(s.held, m)
		return nil
	}
	return s.ClientStream.SendMsg(m)
}

// forwardLocked sends the oldest message that is held; it reports whether there is one.
// A stream that is over says so to who reads.
func (s *gatedStream) forwardLocked() bool {
	if len(s.held) == 0 {
		return false
	}
	_ = s.ClientStream.SendMsg(s.held[0])
	s.held = s.held[1:]
	return true
}

// RecvMsg waits for a response, and until it may be read.
func (s *gatedStream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	g := s.gate
	for {
		g.mu.Lock()
		if g.closed&ToClient == 0 || g.pass {
			g.waits, g.pass = false, false
			g.mu.Unlock()
			return nil
		}
		g.waits = true
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-s.Context().Done():
			g.mu.Lock()
			g.waits, g.pass = false, false
			g.mu.Unlock()
			return s.Context().Err()
		}
	}
}
