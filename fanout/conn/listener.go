// Package conn is where clients come in: a listener that knows its connections, so
// that a server can send away the clients of one without a failure of theirs.
//
// A stream that ends is opened again at once on the connection that it was on, as
// long as that one is good: gRPC clients change to another node only if their
// connection goes. grpc-go says so to all connections of a server or to none, and
// a connection that is just closed fails a stream which is opened at that moment.
// So the door writes what HTTP/2 has for it, GOAWAY, between the frames of grpc-go.
// It has to know where a frame ends for that.
//
// It is also the only one who sees what is not complete, because grpc-go waits for the
// rest of a frame, of a block of headers and of a message for ever, and keeps what has
// come. The door follows where these begin and end, and ends what takes too long or too
// much room; see [Bounds].
package conn

import (
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"xdsrelay/relay/aggregation"
)

// Config says how a Door behaves. It is not changed after [New].
type Config struct {
	// Name is what the listener is called, which those who serve its clients learn.
	Name string
	// Secure shakes hands on a connection; nil for plaintext. What it returns carries
	// HTTP/2 in the form that it is read and written in, and is described without the
	// listener's name.
	Secure func(raw net.Conn) (net.Conn, aggregation.Connection, error)
	// Age is what a connection grows old at, after half of it at the earliest; each at
	// a time of its own. 0 means never.
	Age time.Duration
	// Bounds are those of now for what is incomplete; nil for none.
	Bounds func() Bounds
	// Faulty is called for each stream or connection that is ended because of them,
	// with where it comes from. It returns what the client of a connection is told, and
	// has to be quick. Required with Bounds.
	Faulty func(from string, what Fault) (why string)
	// Turned is called for each connection that was turned away; nil for nobody.
	Turned func()
	// Refused is called with what grpc-go refuses a client by itself, and where that is
	// from; nil for nobody. It must not block.
	Refused func(what Refused, from string)
}

// Door is a listener. The server that accepts from it needs [Credentials]. All
// methods are safe for concurrent use.
type Door struct {
	net.Listener

	cfg Config // fixed after construction

	mu sync.Mutex
	// Guarded by mu.
	unwanted map[string]unwanted // by host
	arriving map[*Conn]struct{}  // on which HTTP/2 has not begun
	open     map[*Conn]struct{}  // see Open
	closed   bool
}

// unwanted says how many connections from a host are closed as they come.
type unwanted struct {
	count int
	until time.Time
}

const (
	// turnTime is for how long a client that was sent away is expected.
	turnTime = 5 * time.Second
	// maxHosts bounds what is remembered of those who were sent away.
	maxHosts = 10_000
)

// New makes the door of a listener.
func New(l net.Listener, cfg Config) *Door {
	if cfg.Turned == nil {
		cfg.Turned = func() {}
	}
	if cfg.Refused == nil {
		cfg.Refused = func(Refused, string) {}
	}
	if cfg.Bounds == nil {
		cfg.Bounds = func() Bounds { return Bounds{} }
	}
	return &Door{Listener: l, cfg: cfg, unwanted: make(map[string]unwanted), arriving: make(map[*Conn]struct{}), open: make(map[*Conn]struct{})}
}

// Accept waits for the next connection, which is a [*Conn].
func (d *Door) Accept() (net.Conn, error) {
	for {
		inner, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if d.turnsAway(inner.RemoteAddr()) {
			_ = inner.Close() // nothing was said on it
			d.cfg.Turned()
			continue
		}
		c := &Conn{Conn: inner, raw: inner, door: d, in: newIncoming()}
		c.quietAt.Store(time.Now().UnixNano())
		c.from = address{inner.RemoteAddr(), c}
		if age := d.cfg.Age; age > 0 {
			c.oldAt = time.Now().Add(age/2 + rand.N(age/2+1)).UnixNano()
		}
		if !d.arrives(c) {
			_ = inner.Close()
			return nil, net.ErrClosed
		}
		return c, nil
	}
}

// Close takes no more connections, and ends those that are arriving: a server that
// stops waits for them, and a client that says nothing would hold it up.
func (d *Door) Close() error {
	err := d.Listener.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for c := range d.arriving {
		_ = c.raw.Close()
	}
	clear(d.arriving)
	return err
}

// arrives notes a connection that is new; not on a door that is closed.
func (d *Door) arrives(c *Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.arriving[c], d.open[c] = struct{}{}, struct{}{}
	return true
}

// Open returns the connections that are open, in no order.
func (d *Door) Open() []*Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.open))
}

// AnyOld reports whether any open connection has reached its age. It allocates nothing.
func (d *Door) AnyOld(now time.Time) bool {
	if d.cfg.Age <= 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.open {
		if c.Old(now) {
			return true
		}
	}
	return false
}

// left forgets a connection. It may be called again.
func (d *Door) left(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
}

// arrived ends what arrives began. It may be called again.
func (d *Door) arrived(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.arriving, c)
}

// turnsAway tells whether a connection is to be closed as it comes.
func (d *Door) turnsAway(from net.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.unwanted) == 0 {
		return false
	}
	host := hostOf(from)
	u, ok := d.unwanted[host]
	if !ok {
		return false
	}
	if u.count--; u.count <= 0 || time.Now().After(u.until) {
		delete(d.unwanted, host)
	} else {
		d.unwanted[host] = u
	}
	return time.Now().Before(u.until)
}

// expect makes the next connection from where c comes be turned away, if it comes
// soon: a client that was sent away and has a list of nodes begins with the first
// of them again, and takes the next only if that one fails.
func (d *Door) expect(c *Conn) {
	if c.from.isLocal() {
		return // all clients of a Unix socket look the same
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if len(d.unwanted) >= maxHosts {
		for host, u := range d.unwanted {
			if now.After(u.until) {
				delete(d.unwanted, host)
			}
		}
		if len(d.unwanted) >= maxHosts {
			return
		}
	}
	host := hostOf(c.from.Addr)
	u := d.unwanted[host]
	if now.After(u.until) {
		u.count = 0
	}
	d.unwanted[host] = unwanted{u.count + 1, now.Add(turnTime)}
}

// hostOf is the host of an address, or all of it where it has none.
func hostOf(a net.Addr) string {
	if host, _, err := net.SplitHostPort(a.String()); err == nil {
		return host
	}
	return a.String()
}
