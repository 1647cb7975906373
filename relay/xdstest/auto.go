package xdstest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
)

// AutoConfig says how an [Auto] client behaves.
type AutoConfig struct {
	Addr    string // server, "host:port"; see Next
	Variant Variant
	Node    *corev3.Node // nil means that of Dial

	// Nack is asked about each frame, after it was checked; a non-empty answer
	// rejects it with that message. Nil accepts everything. It runs on the
	// client's goroutine.
	Nack func(*Frame) string

	// Reject is asked about each resource with a body; a non-empty answer
	// rejects the frame with that message, but the rest of it is used, as the
	// gRPC clients do. Nil accepts everything. It runs on the client's
	// goroutine, and not where Nack has rejected the frame.
	Reject func(typeURL string, r Resource) string

	// Forgetful says that a SotW client which has dropped its last name of a
	// type forgets nonce and version, as several gRPC clients do: it starts
	// again without a nonce on the same stream (B10).
	Forgetful bool

	// Trusting says that a SotW client which drops a name and wants it again leaves it to
	// the server to notice, as Envoy and the gRPC clients do: it says both at once, and
	// its answer to a response that crosses that names everything. Others leave the name
	// out of that answer, and ask for it after that, which servers hear that ignore stale
	// requests (B8, C9).
	Trusting bool

	// Overdue, unless nil, tells how often the server may have given up waiting for
	// an answer of this client (B12): so many more responses may be on their way than
	// the one of B9. It is asked with the client's lock held.
	Overdue func() int

	// BeforeRead and BeforeAck, unless nil, run on the client's goroutine before
	// each read and each answer: to be slow they block, until their context
	// ends.
	BeforeRead func(context.Context)
	BeforeAck  func(context.Context, *Frame)

	// Next, unless nil, is asked before each attempt at a stream for the server to
	// go to; Addr and MoveTo then count for nothing. An attempt at a server that
	// cannot be reached fails, rather than wait for it. It runs on the client's
	// goroutine.
	Next func() string

	// Backoff is how long the client waits after a stream without an answer (C13). 0
	// means 20 ms, the speed of tests.
	Backoff time.Duration

	// Watch, unless nil, is told of all that happens on streams, in order, on the
	// client's goroutine; of a frame before it is used.
	Watch func(AutoEvent)

	// DialOptions are added to the defaults (plaintext).
	DialOptions []grpc.DialOption
}

// AutoEvent is something that happened to an [Auto] client: a stream was opened,
// a frame came, or the stream ended.
type AutoEvent struct {
	Addr  string // the server
	Frame *Frame // nil unless a frame came
	Ended bool   // the stream is over
	Err   error  // why, if it is over
	Own   bool   // it is over because the client wanted it
}

// Auto is a client that behaves as a good Envoy does, on one stream. It
// subscribes as told, answers every response, keeps what it accepted, and when
// its stream ends it comes back with what it holds: SotW quotes the version
// last accepted, delta the versions of all resources. Breaches of protocol by
// the server are noted, not acted upon.
type Auto struct {
	cfg    AutoConfig      // fixed
	log    *Transcript     // fixed
	ctx    context.Context // fixed; ends with the client
	cancel context.CancelFunc
	done   chan struct{} // closed when the client's goroutine has ended

	tooBusy error // set by run; see mostBusy

	sendMu sync.Mutex // held from building a request until it is sent; taken before mu

	mu         sync.Mutex // guards all below
	addr       string
	offline    bool
	session    *autoSession // nil between sessions
	types      map[string]*autoType
	violations []string
	stats      AutoStats
	changed    chan struct{} // closed and replaced with every change
}

// autoSession is one attempt at a stream, and the stream's life.
type autoSession struct {
	cancel   context.CancelFunc // fixed
	grpc     grpc.ClientStream  // guarded by Auto.mu; nil until it is open, then fixed
	nonces   map[string]bool    // guarded by Auto.mu
	nodeSent bool               // guarded by Auto.sendMu
}

// AutoStats counts what a client saw.
type AutoStats struct {
	Streams int // streams opened
	Frames  int
	Acks    int
	Nacks   int
	// LastEnd is why the last stream ended; nil before.
	LastEnd error
}

// Held is a resource as a client holds it.
type Held struct {
	Version string
	Body    []byte // not to be changed
}

// StartAuto starts a client, which connects at once. It ends with the test.
func StartAuto(t TB, cfg AutoConfig) *Auto {
	t.Helper()
	if cfg.Node == nil {
		cfg.Node = Node("test-client", "test-cluster")
	}
	if cfg.Variant.Method() == "" {
		t.Fatalf("no service speaks %s", cfg.Variant)
	}
	a := &Auto{
		cfg: cfg, addr: cfg.Addr, done: make(chan struct{}),
		log:   NewTranscript(fmt.Sprintf("client %q (%s)", cfg.Node.GetId(), cfg.Variant), 60),
		types: make(map[string]*autoType), changed: make(chan struct{}),
	}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	go a.run()
	t.Cleanup(func() {
		a.Close()
		if a.tooBusy != nil { // whatever the test looks at
			t.Errorf("%s: %v", a.log.who, a.tooBusy)
		}
	})
	return a
}

// Close ends the client and waits until nothing of it runs any more. What it
// held and noted can still be asked for.
func (c *Auto) Close() {
	c.cancel()
	<-c.done
}

// Subscribe adds names of a type. Without names, or with "*", it subscribes to
// everything; the legacy form is used where it means the same.
func (c *Auto) Subscribe(typeURL string, names ...string) {
	c.change(typeURL, func(t *autoType) subChange { return t.add(names) })
}

// Unsubscribe drops names of a type ("*" is the subscription to everything),
// and with them the resources that no other subscription covers. Without names
// it drops all of the type.
func (c *Auto) Unsubscribe(typeURL string, names ...string) {
	c.change(typeURL, func(t *autoType) subChange { return t.drop(names) })
}

// Repeat asks a delta server once more for names, or "*", that the client wants already
// (B35). It says nothing of others, and nothing in SotW, where every request is like
// that.
func (c *Auto) Repeat(typeURL string, names ...string) {
	if c.cfg.Variant.Delta {
		c.change(typeURL, func(t *autoType) subChange { return t.again(names) })
	}
}

// Disconnect ends the stream and stays away until [Auto.Connect].
func (c *Auto) Disconnect() { c.relocate(func() { c.offline = true }) }

// Connect ends Disconnect.
func (c *Auto) Connect() { c.relocate(func() { c.offline = false }) }

// Reconnect ends the stream; the client comes back at once.
func (c *Auto) Reconnect() { c.relocate(func() {}) }

// MoveTo ends the stream and goes on at another server.
func (c *Auto) MoveTo(addr string) { c.relocate(func() { c.addr = addr }) }

func (c *Auto) relocate(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	if c.session != nil {
		c.session.cancel()
	}
	c.signalLocked()
}

// Held is what the client holds of a type, by name.
func (c *Auto) Held(typeURL string) map[string]Held {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.types[typeURL]; t != nil {
		return maps.Clone(t.held)
	}
	return nil
}

// Version is the version of a type that the client accepted last.
func (c *Auto) Version(typeURL string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.types[typeURL]; t != nil {
		return t.accepted
	}
	return ""
}

// Connected reports whether the client has a stream.
func (c *Auto) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connectedLocked()
}

// Stats says what the client saw so far.
func (c *Auto) Stats() AutoStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Violations lists the breaches of protocol that the client met.
func (c *Auto) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// CheckViolations fails the test, without ending it, if there are any.
func (c *Auto) CheckViolations(t TB) {
	t.Helper()
	if v := c.Violations(); len(v) > 0 {
		t.Errorf("protocol violations met by %s: %q%s", c.log.who, v, c.log)
	}
}

// WaitFor waits until cond holds, which may ask the client anything; the test
// fails after [Patience]. what completes the sentence "waited for …".
func (c *Auto) WaitFor(t TB, what string, cond func() bool) {
	t.Helper()
	if !poll(cond, c.changeSignal) {
		t.Fatalf("waited %v for %s, in vain; %s", PatienceHere(), what, c)
	}
}

// WaitHeld waits until the client holds exactly the given names of a type.
func (c *Auto) WaitHeld(t TB, typeURL string, names ...string) {
	t.Helper()
	want := slices.Sorted(slices.Values(names))
	c.WaitFor(t, fmt.Sprintf("%s to be exactly %s", shortType(typeURL), brief(want)), func() bool {
		return slices.Equal(slices.Sorted(maps.Keys(c.Held(typeURL))), want)
	})
}

// String tells what the client holds, noted and said.
func (c *Auto) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s: %d streams (connected: %t), %d frames, last end: %v", c.log.who, c.addr,
		c.stats.Streams, c.connectedLocked(), c.stats.Frames, c.stats.LastEnd)
	for _, u := range slices.Sorted(maps.Keys(c.types)) {
		t := c.types[u]
		fmt.Fprintf(&b, "\n    %s: wants %s, holds %s", shortType(u), brief(t.wanted()), brief(slices.Sorted(maps.Keys(t.held))))
	}
	for _, v := range c.violations {
		b.WriteString("\n    violation: " + v)
	}
	return b.String() + c.log.String()
}

func (c *Auto) connectedLocked() bool { return c.session != nil && c.session.grpc != nil }

func (c *Auto) changeSignal() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// signalLocked wakes those who wait for a change. c.mu is held.
func (c *Auto) signalLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// pause waits for d, or for a change.
func (c *Auto) pause(d time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-c.ctx.Done():
	}
}
