package conn

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"xdsrelay/fanout/ready"
	"xdsrelay/relay/lockorder"
)

// Conn is a connection that a [Listener] accepted.
type Conn struct {
	// Conn carries HTTP/2. It is the accepted connection, or TLS on it after the handshake; it
	// changes only before the connection is served.
	net.Conn

	// Fixed after construction.
	raw      net.Conn // as accepted
	listener *Listener
	from     address
	oldAt    int64 // in ns since 1970; 0 for never

	streams    atomic.Int64 // see Enter
	quietAt    atomic.Int64 // when the last stream ended, or else when the connection was accepted; in ns since 1970
	goAwaySent atomic.Bool  // GoAway was called
	waiting    atomic.Int64 // bytes of complete messages that nobody has read; see Unread
	cutting    atomic.Bool  // streams are being reset; see Read

	ready ready.Reader // owned by the reading goroutine; see ReadOnReady

	coming lockorder.Mutex[lockorder.Coming]
	// Guarded by coming.
	in      incoming
	watch   *time.Timer // nil while nothing is incomplete; see watchLocked
	watchAt time.Time
	woken   bool // endLate interrupted a read
	shut    bool // nothing is watched any more

	mu lockorder.Mutex[lockorder.Conn]
	// Guarded by mu.
	out    outgoing
	held   held
	queued []byte // frames to write after the current one

	claims lockorder.Mutex[lockorder.Claims]
	// Guarded by claims.
	release func() // releases what Claim booked; nil means nothing is booked
	closed  bool
}

// address is a remote address that knows its connection. grpc-go passes it to the handlers of
// streams, also over TLS.
type address struct {
	net.Addr

	conn *Conn
}

// isLocal reports whether the client is a process of this machine on a Unix socket. Its own end has
// no name.
func (a *address) isLocal() bool { return a.Network() == "unix" }

// String returns the address of the client; for a Unix socket, the path of the socket.
func (a *address) String() string {
	if a.isLocal() {
		return "unix:" + a.conn.raw.LocalAddr().String()
	}
	return a.Addr.String()
}

// Encrypted reports whether the connection is TLS. It must not be called before the handshake ends.
func (c *Conn) Encrypted() bool {
	_, is := c.Conn.(*tls.Conn)
	return is
}

// Of returns the connection of a remote address; nil if no [Listener] accepted it.
func Of(a net.Addr) *Conn {
	if from, ok := a.(*address); ok {
		return from.conn
	}
	return nil
}

// RemoteAddr returns an address that [Of] knows.
func (c *Conn) RemoteAddr() net.Addr { return &c.from }

// SetDeadline is called by grpc-go for a new connection, and with the zero time once HTTP/2 has
// begun on it.
func (c *Conn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.listener.established(c)
	}
	return c.Conn.SetDeadline(t)
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.listener.established(c)
	c.listener.removeConn(c)
	c.releaseClaim()
	c.stopWatching()
	return c.Conn.Close()
}

// Old reports whether the connection has reached its age.
func (c *Conn) Old(now time.Time) bool { return c.oldAt != 0 && now.UnixNano() >= c.oldAt }

// Enter counts an admitted stream on the connection. [Conn.Leave] ends it.
func (c *Conn) Enter() { c.streams.Add(1) }

// Leave records the end of a stream; see [Conn.Enter].
func (c *Conn) Leave() {
	c.quietAt.Store(time.Now().UnixNano())
	c.streams.Add(-1)
}

// Streamless reports whether the connection has no admitted stream, and since when.
func (c *Conn) Streamless() (since time.Time, is bool) {
	if c.streams.Load() > 0 {
		return time.Time{}, false
	}
	return time.Unix(0, c.quietAt.Load()), true
}

// Handshaking reports whether HTTP/2 has not begun on the connection.
func (c *Conn) Handshaking() bool {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	_, is := c.listener.handshaking[c]
	return is
}

// Abort closes a connection that is handshaking. Its server sees a failed handshake.
func (c *Conn) Abort() { _ = c.raw.Close() }

// Write takes whole frames one after the other, in pieces of any size. It may keep a piece of
// [WriteBatch] bytes until the next call; see [held].
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.pass(p, c.ended, c.forget)
	if c.held.takes(p, c.out.between()) {
		return len(p), nil
	}
	if err := c.held.writeTo(c.Conn, p); err != nil {
		return 0, err
	}
	return len(p), c.sendQueuedLocked()
}

// GoAway asks the client to open no more streams on this connection, and then calls then. Open
// streams continue. GoAway itself does not wait. The frame is written, and then is called, after
// the write in progress, which a client that does not read delays until the connection is closed. A
// second call does nothing and returns false. With rejectNext, the next connection from the same
// host is closed on arrival.
func (c *Conn) GoAway(why string, rejectNext bool, then func()) bool {
	if c.goAwaySent.Swap(true) {
		return false
	}
	if rejectNext {
		c.listener.rejectNext(c)
	}
	go func() {
		c.sendFrames(goAway(http2.ErrCodeNo, why))
		then()
	}()
	return true
}

// sendFrames writes frames between two of grpc-go. It may block on a client that does not read.
func (c *Conn) sendFrames(frames []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued = append(c.queued, frames...)
	if c.sendQueuedLocked() != nil {
		_ = c.Conn.Close() // half a frame may have been written
	}
}

// GoingAway reports whether GoAway was called.
func (c *Conn) GoingAway() bool { return c.goAwaySent.Load() }

// sendQueuedLocked writes the queued frames unless a frame is half written. The caller holds mu.
func (c *Conn) sendQueuedLocked() error {
	if c.queued == nil || !c.out.between() {
		return nil
	}
	queued := c.queued
	c.queued = nil
	_, err := c.Conn.Write(queued)
	return err
}
