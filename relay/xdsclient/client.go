package xdsclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// How long a client waits before it opens another stream after one without an answer, if its
// configuration does not say: at first, and at most.
const (
	DefaultBackoff        = time.Second
	DefaultLongestBackoff = 30 * time.Second
)

// Config says how a [Client] behaves. It is not changed after [Start] was called.
type Config struct {
	// Addr is the server, "host:port". Empty is allowed only with Next.
	Addr string
	// Variant is the way to speak xDS: SotW or delta, on the aggregated service or on that of one
	// type. The zero value is [SotW].
	Variant Variant
	// Node identifies the client. It is sent with the first request of each stream. Required.
	Node *corev3.Node

	// Nack is called with each frame, after it was checked; a non-empty answer rejects the frame with
	// that message. Nil accepts everything. It runs on the client's goroutine.
	Nack func(*Frame) string

	// Reject is called with each resource that has a body; a non-empty answer rejects the frame with
	// that message, but the rest of it is used, as the gRPC clients do. Nil accepts everything. It
	// runs on the client's goroutine, and not where Nack has rejected the frame.
	Reject func(typeURL string, r Resource) string

	// Forgetful is true for a SotW client that forgets nonce and version with the last name of a
	// type, as several gRPC clients do: it starts again without a nonce on the same stream (B10).
	Forgetful bool

	// Trusting is true for a SotW client that drops a name, wants it again, and leaves it to the
	// server to notice, as Envoy and the gRPC clients do: it says both at once, and its answer to a
	// response that crosses that names everything. Others leave the name out of that answer, and ask
	// for it after that, which servers receive that ignore stale requests (B8, C9).
	Trusting bool

	// Overdue, unless nil, returns how often the server may have given up waiting for an answer of
	// this client (B12): so many more responses may be on their way than the one of B9. It is called
	// with the client's lock held.
	Overdue func() int

	// BeforeRead and BeforeAck, unless nil, run on the client's goroutine: before each read, when the
	// frame before it was answered, and before each answer, when the frame was taken in. To be slow
	// they block, until their context ends. They may change the subscriptions of this client and of
	// others.
	BeforeRead func(context.Context)
	BeforeAck  func(context.Context, *Frame)

	// Next, unless nil, returns the server for the next attempt at a stream; Addr and MoveTo are
	// ignored then. An attempt at a server that cannot be reached fails, rather than wait for it. It
	// runs on the client's goroutine.
	Next func() string

	// Backoff is how long the client waits after a stream without an answer, or a failed attempt at
	// one (C13). Each wait in a row is 1.6 times the one before, up to LongestBackoff, and up to 20 %
	// shorter or longer. Both may be 0, which means [DefaultBackoff] and [DefaultLongestBackoff]; if
	// they are equal, each wait is exactly that long. After a stream with an answer the client opens
	// the next one at once.
	Backoff, LongestBackoff time.Duration

	// Watch, unless nil, is called with all that happens on streams, in order, on the client's
	// goroutine; with a frame before it is used.
	Watch func(Event)

	// Failed, unless nil, is called with the error of each attempt at a stream that did not open. It
	// runs on the client's goroutine. An unreachable server is such an error only with Next.
	Failed func(err error)

	// Log, unless nil, is called with a line for each request, response, violation and end of a
	// stream. It is called on any goroutine, with locks of the client held.
	Log func(format string, args ...any)

	// DialOptions are added to the defaults, and win over them. The defaults are plaintext,
	// responses of up to 1 GiB, and the connection backoff of gRPC.
	DialOptions []grpc.DialOption
}

// Event is something that happened to a [Client]: a stream was opened, a frame arrived, or the stream
// ended.
type Event struct {
	Addr  string // the server
	Frame *Frame // nil unless a frame arrived
	Ended bool   // the stream is over
	Err   error  // why, if it is over
	Own   bool   // it is over because the client ended it
}

// Client keeps one stream. All methods may be called from any goroutine.
type Client struct {
	cfg    Config          // fixed
	ctx    context.Context // fixed; ends with the client
	cancel context.CancelFunc
	done   chan struct{} // closed when the client's goroutine has ended

	sendMu sync.Mutex // held from building a request until it is sent; locked before mu

	mu         sync.Mutex // guards all below
	addr       string
	offline    bool
	session    *session // nil between sessions
	types      map[string]*typeState
	violations []string
	stats      Stats
	changed    chan struct{} // closed and replaced with every change
}

// session is one attempt at a stream, and the stream's life.
type session struct {
	cancel   context.CancelFunc // fixed
	grpc     grpc.ClientStream  // guarded by Client.mu; nil until it is open, then fixed
	nonces   map[string]bool    // guarded by Client.mu
	nodeSent bool               // guarded by Client.sendMu
}

// Stats counts what a client saw.
type Stats struct {
	Streams int // streams opened
	Frames  int
	Acks    int
	Nacks   int
	// LastEnd is why the last stream, or attempt at one, ended; nil before.
	LastEnd error
}

// Held is a resource as a client holds it.
type Held struct {
	Version string
	Body    []byte // not to be changed
}

// Start starts a client, which connects at once and until [Client.Close]. It returns an error if the
// configuration cannot work; a server that is out of reach is none.
func Start(cfg Config) (*Client, error) {
	switch {
	case cfg.Variant.Method() == "":
		return nil, fmt.Errorf("xdsclient: no service has the variant %s", cfg.Variant)
	case cfg.Node == nil:
		return nil, errors.New("xdsclient: a client needs a node")
	case cfg.Addr == "" && cfg.Next == nil:
		return nil, errors.New("xdsclient: a client needs the address of a server")
	case cfg.Backoff < 0:
		return nil, fmt.Errorf("xdsclient: a backoff of %v is negative", cfg.Backoff)
	case cfg.LongestBackoff < 0:
		return nil, fmt.Errorf("xdsclient: a longest backoff of %v is negative", cfg.LongestBackoff)
	}
	if cfg.Log == nil {
		cfg.Log = func(string, ...any) {}
	}
	cfg.Backoff, cfg.LongestBackoff = cmp.Or(cfg.Backoff, DefaultBackoff), cmp.Or(cfg.LongestBackoff, DefaultLongestBackoff)
	cfg.DialOptions = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1 << 30)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: 10 * time.Second}),
	}, cfg.DialOptions...)
	c := &Client{cfg: cfg, addr: cfg.Addr, done: make(chan struct{}), types: make(map[string]*typeState), changed: make(chan struct{})}
	trial, err := c.dial(cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("xdsclient: %w", err)
	}
	_ = trial.Close()
	c.ctx, c.cancel = context.WithCancel(context.Background())
	go c.run()
	return c, nil
}

// Close ends the client and waits until nothing of it runs any more. Its content can still be read.
// It may be called more than once, but not by the functions of [Config].
func (c *Client) Close() {
	c.cancel()
	<-c.done
}

// Subscribe adds names of a type. Without names, or with "*", it subscribes to everything; the legacy
// form, a first request without names, is used where it means the same (B20).
func (c *Client) Subscribe(typeURL string, names ...string) {
	c.change(typeURL, func(t *typeState) subChange { return t.add(names) })
}

// Unsubscribe drops names of a type ("*" is the subscription to everything),
// and with them the resources that no other subscription covers. Without names
// it drops all of the type.
func (c *Client) Unsubscribe(typeURL string, names ...string) {
	c.change(typeURL, func(t *typeState) subChange { return t.drop(names) })
}

// Repeat asks a delta server once more for names, or "*", that the client wants already (B35). It
// ignores other names, and does nothing on SotW, where every request repeats all names.
func (c *Client) Repeat(typeURL string, names ...string) {
	if c.cfg.Variant.Delta {
		c.change(typeURL, func(t *typeState) subChange { return t.again(names) })
	}
}

// Disconnect ends the stream, and keeps the client without one until [Client.Connect]. The client
// keeps its content and its subscriptions.
func (c *Client) Disconnect() { c.relocate(func() { c.offline = true }) }

// Connect ends Disconnect.
func (c *Client) Connect() { c.relocate(func() { c.offline = false }) }

// Reconnect ends the stream; the client opens the next one at once.
func (c *Client) Reconnect() { c.relocate(func() {}) }

// MoveTo ends the stream and continues at another server, "host:port". It has no effect with
// [Config.Next].
func (c *Client) MoveTo(addr string) { c.relocate(func() { c.addr = addr }) }

func (c *Client) relocate(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	if c.session != nil {
		c.session.cancel()
	}
	c.signalLocked()
}

// Held is what the client holds of a type: accepted resources that it still subscribes to, by
// canonical name.
func (c *Client) Held(typeURL string) map[string]Held {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.types[typeURL]; t != nil {
		return maps.Clone(t.held)
	}
	return nil
}

// HeldOf is the resource of [Client.Held] with a canonical name; false if there is none.
func (c *Client) HeldOf(typeURL, name string) (Held, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.types[typeURL]
	if t == nil {
		return Held{}, false
	}
	h, ok := t.held[name]
	return h, ok
}

// Version is the version of a type that the client accepted last; empty if none.
func (c *Client) Version(typeURL string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.types[typeURL]; t != nil {
		return t.accepted
	}
	return ""
}

// Connected reports whether the client has a stream.
func (c *Client) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connectedLocked()
}

// Stats is what the client saw so far.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// mostViolations is how many violations a client remembers.
const mostViolations = 1000

// Violations lists the breaches of protocol that the client met, in order, the first thousand. Each begins with the id of
// the rule, as in "B5: ..."; docs/internals/conformance.md lists the rules.
func (c *Client) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// Wanted is the subscription of each type that the client has ever subscribed to: sorted names, "*"
// first if it is one of them.
func (c *Client) Wanted() map[string][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := make(map[string][]string, len(c.types))
	for u, t := range c.types {
		wanted[u] = t.wanted()
	}
	return wanted
}

// Changed returns a channel that is closed with the next change of anything that the client's methods
// return. To wait for a condition, call Changed, then look, then wait.
func (c *Client) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// String is the state of the client in a few lines: its subscriptions, what it holds, and violations.
func (c *Client) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "client %q (%s) at %s: %d streams (connected: %t), %d frames, last end: %v", c.cfg.Node.GetId(), c.cfg.Variant, c.addr,
		c.stats.Streams, c.connectedLocked(), c.stats.Frames, c.stats.LastEnd)
	for _, u := range slices.Sorted(maps.Keys(c.types)) {
		t := c.types[u]
		fmt.Fprintf(&b, "\n    %s: wants %s, holds %s", ShortType(u), Brief(t.wanted()), Brief(slices.Sorted(maps.Keys(t.held))))
	}
	for _, v := range c.violations {
		b.WriteString("\n    violation: " + v)
	}
	return b.String()
}

func (c *Client) connectedLocked() bool { return c.session != nil && c.session.grpc != nil }

// signalLocked announces a change. c.mu is held.
func (c *Client) signalLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}
