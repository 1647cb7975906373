package xdstest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// dialOptions are those of every client here: plaintext, no limit on what is
// received, and quick reconnects, since tests stop servers all the time.
func dialOptions(more []grpc.DialOption) []grpc.DialOption {
	return append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1 << 30)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: PatienceHere(),
		}),
	}, more...)
}

// Conn is a scripted client's connection. Its streams share one transcript.
type Conn struct {
	t      TB               // fixed
	cc     *grpc.ClientConn // fixed
	log    *Transcript      // fixed
	ctx    context.Context  // fixed; ends with the connection
	cancel context.CancelFunc
	opened atomic.Int64
	wg     sync.WaitGroup // receivers of the streams

	// Node is sent on each stream's first message, unless nil. Set it before
	// opening streams.
	Node *corev3.Node
}

// Dial makes a client of the server at addr ("host:port"); plaintext unless an
// option says otherwise. Connecting happens with the first stream.
func Dial(t TB, addr string, opts ...grpc.DialOption) *Conn {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+addr, dialOptions(opts)...)
	if err != nil {
		t.Fatalf("client of %s: %v", addr, err)
	}
	c := &Conn{t: t, cc: cc, log: NewTranscript("client of "+addr, 400), Node: Node("test-client", "test-cluster")}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	t.Cleanup(c.Close)
	return c
}

// ClientConn is the connection below, for calls of another kind.
func (c *Conn) ClientConn() *grpc.ClientConn { return c.cc }

// Open starts a stream of the variant. It fails the test if there is no such
// method or no connection.
func (c *Conn) Open(v Variant) *Stream {
	c.t.Helper()
	method := v.Method()
	if method == "" {
		c.t.Fatalf("no service speaks %s", v)
	}
	return c.OpenMethod(method, v.Delta)
}

// OpenMethod starts a stream of any gRPC method that takes discovery requests,
// known or not: for the v2 services, and for names that must be refused.
func (c *Conn) OpenMethod(method string, delta bool) *Stream {
	c.t.Helper()
	gs, cancel := c.open(method)
	id := fmt.Sprintf("#%d", c.opened.Add(1))
	s := &Stream{
		id: id, delta: delta, log: c.log, node: c.Node,
		grpc: gs, cancel: cancel, frames: newInbox("stream "+id, c.log, (*Frame).String),
		types: make(map[string]*typeState), readable: make(chan struct{}),
	}
	close(s.readable)
	s.log.add("%s opened %s", s.id, method)
	c.wg.Go(s.receive)
	return s
}

// open starts a stream of any method, in which nothing was said yet.
func (c *Conn) open(method string) (grpc.ClientStream, context.CancelFunc) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.ctx)
	limit := time.AfterFunc(PatienceHere(), cancel)
	gs, err := c.cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, grpc.WaitForReady(true))
	if !limit.Stop() || err != nil {
		cancel()
		c.t.Fatalf("open %s: %v%s", method, err, c.log)
	}
	_ = gs.Context() // see the client of package xdsclient
	return gs, cancel
}

// ShareTranscript lets what is said go into a transcript of several parts from
// now on, marked with a name.
func (c *Conn) ShareTranscript(into *Transcript, as string) { c.log.share(into, as) }

// Close ends the connection with its streams, and waits until nothing of it
// runs any more. It is part of the test's cleanup and may be called before.
func (c *Conn) Close() {
	c.cancel()
	_ = c.cc.Close()
	c.wg.Wait()
}
