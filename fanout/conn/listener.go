// Package conn is the connection guard: a listener between TLS and grpc-go that knows its
// connections. It can ask the client of one connection to leave without failing any of its streams,
// and it bounds what a client leaves incomplete.
//
// # Draining one connection
//
// A gRPC client reopens a stream that ended on the same connection as long as that connection is
// usable, so it moves to another node only when the connection ends. grpc-go sends GOAWAY to all
// connections of a server or to none, and closing a connection fails the streams that a client
// opens at that moment. So [Conn.GoAway] writes a GOAWAY frame between two frames of grpc-go. To do
// that it must know where frames end.
//
// # Incomplete input
//
// grpc-go waits indefinitely for the rest of a frame, of a header block and of a message, and keeps
// what has arrived. Only this package sees that. It follows where these begin and end, and ends
// streams and connections that take too long or too much memory; see [Bounds].
//
// # Files
//
//   - listener.go: accepts connections, knows which are open, and refuses those of clients that
//     were just drained
//   - conn.go: one connection: GOAWAY, its age, its streams
//   - credentials.go: the TLS handshake, per listener
//   - claim.go: what is booked for a connection until it closes
//   - read.go: reads, enforces [Bounds], counts unread bytes
//   - incoming.go, message.go: the state of the frames and gRPC messages that a client sends
//   - outgoing.go, refused.go: the frames that the server writes, and the refusals of grpc-go among
//     them
//   - held.go: joins what grpc-go writes to few writes
//   - frames.go: frame boundaries, GOAWAY and RST_STREAM frames
package conn

import (
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/lockorder"
)

// Config configures a Listener. It is not changed after [New].
type Config struct {
	// Name is the name of the listener. The servers of its clients see it.
	Name string
	// Secure does the handshake of a connection; nil means plaintext. The connection that it
	// returns carries HTTP/2 in plaintext. The description that it returns has no listener name.
	Secure func(raw net.Conn) (net.Conn, aggregation.Connection, error)
	// Age is the maximum age of a connection. Each connection reaches its own age between half of
	// Age and Age. 0 means unlimited.
	Age time.Duration
	// Bounds returns the current bounds for incomplete input; nil means none.
	Bounds func() Bounds
	// Faulty is called for each stream or connection that is ended because of the Bounds, with the
	// address of the client. It returns the text for the client of a connection. It must be quick.
	// Required with Bounds.
	Faulty func(from string, what Fault) (why string)
	// ConnectionRefused is called for each connection that is closed on arrival; may be nil.
	ConnectionRefused func()
	// Refused is called for each refusal that grpc-go makes itself, with the address of the client;
	// may be nil. It must not block.
	Refused func(what Refused, from string)
}

// Listener accepts connections. The gRPC server that accepts from it needs [Credentials]. All
// methods are safe for concurrent use.
type Listener struct {
	net.Listener

	cfg Config // fixed after construction

	mu lockorder.Mutex[lockorder.Claims]
	// Guarded by mu.
	rejectNextFrom map[string]rejections // by host
	handshaking    map[*Conn]struct{}    // HTTP/2 has not begun on these
	open           map[*Conn]struct{}    // see Open
	closed         bool
}

// rejections is the number of next connections from a host that are closed on arrival.
type rejections struct {
	count int
	until time.Time
}

const (
	// rejectNextTime is for how long a drained client is expected to reconnect.
	rejectNextTime = 5 * time.Second
	// maxHosts bounds the hosts in rejectNextFrom.
	maxHosts = 10_000
)

// New wraps l.
func New(l net.Listener, cfg Config) *Listener {
	if cfg.ConnectionRefused == nil {
		cfg.ConnectionRefused = func() {}
	}
	if cfg.Refused == nil {
		cfg.Refused = func(Refused, string) {}
	}
	if cfg.Bounds == nil {
		cfg.Bounds = func() Bounds { return Bounds{} }
	}
	return &Listener{Listener: l, cfg: cfg, rejectNextFrom: make(map[string]rejections), handshaking: make(map[*Conn]struct{}), open: make(map[*Conn]struct{})}
}

// Accept waits for the next connection, which is a [*Conn].
func (d *Listener) Accept() (net.Conn, error) {
	for {
		inner, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if d.refuses(inner.RemoteAddr()) {
			_ = inner.Close() // nothing was sent on it
			d.cfg.ConnectionRefused()
			continue
		}
		c := &Conn{Conn: inner, raw: inner, listener: d, in: newIncoming()}
		c.quietAt.Store(time.Now().UnixNano())
		c.from = address{inner.RemoteAddr(), c}
		if age := d.cfg.Age; age > 0 {
			c.oldAt = time.Now().Add(age/2 + rand.N(age/2+1)).UnixNano()
		}
		if !d.addConn(c) {
			_ = inner.Close()
			return nil, net.ErrClosed
		}
		return c, nil
	}
}

// Close stops accepting and closes the connections on which HTTP/2 has not begun: a server that
// stops waits for them, so a silent client would delay it.
func (d *Listener) Close() error {
	err := d.Listener.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for c := range d.handshaking {
		_ = c.raw.Close()
	}
	clear(d.handshaking)
	return err
}

// addConn registers a new connection. It returns false if the listener is closed.
func (d *Listener) addConn(c *Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.handshaking[c], d.open[c] = struct{}{}, struct{}{}
	return true
}

// Open returns the open connections, in no order.
func (d *Listener) Open() []*Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.open))
}

// AnyOld reports whether any open connection has reached its age. It allocates nothing.
func (d *Listener) AnyOld(now time.Time) bool {
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

// removeConn unregisters a connection. It is idempotent.
func (d *Listener) removeConn(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
}

// established records that HTTP/2 has begun on a connection, or that it was closed. It is
// idempotent.
func (d *Listener) established(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.handshaking, c)
}

// refuses reports whether a new connection must be closed on arrival.
func (d *Listener) refuses(from net.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.rejectNextFrom) == 0 {
		return false
	}
	host := hostOf(from)
	u, ok := d.rejectNextFrom[host]
	if !ok {
		return false
	}
	if u.count--; u.count <= 0 || time.Now().After(u.until) {
		delete(d.rejectNextFrom, host)
	} else {
		d.rejectNextFrom[host] = u
	}
	return time.Now().Before(u.until)
}

// rejectNext makes the listener close the next connection from the host of c, if it arrives within
// rejectNextTime: a drained client with a list of nodes tries the first of them again and takes the
// next one only if that fails.
func (d *Listener) rejectNext(c *Conn) {
	if c.from.isLocal() {
		return // all clients of a Unix socket look the same
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if len(d.rejectNextFrom) >= maxHosts {
		for host, u := range d.rejectNextFrom {
			if now.After(u.until) {
				delete(d.rejectNextFrom, host)
			}
		}
		if len(d.rejectNextFrom) >= maxHosts {
			return
		}
	}
	host := hostOf(c.from.Addr)
	u := d.rejectNextFrom[host]
	if now.After(u.until) {
		u.count = 0
	}
	d.rejectNextFrom[host] = rejections{u.count + 1, now.Add(rejectNextTime)}
}

// hostOf returns the host of an address, or the whole address if it has no host.
func hostOf(a net.Addr) string {
	if host, _, err := net.SplitHostPort(a.String()); err == nil {
		return host
	}
	return a.String()
}
