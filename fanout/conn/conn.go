package conn

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"xdsrelay/fanout/ready"
)

// Conn is a connection that came in by a [Door].
type Conn struct {
	// Conn is what HTTP/2 is spoken on: what was accepted, or TLS on it once hands were
	// shaken, before anybody serves it.
	net.Conn

	// Fixed after construction.
	raw   net.Conn // what was accepted
	door  *Door
	from  address
	oldAt int64 // in ns since 1970; 0 for never

	streams atomic.Int64 // see Enter
	quietAt atomic.Int64 // when the last of them left, or the connection was accepted; in ns since 1970
	gone    atomic.Bool  // GoAway was called
	waiting atomic.Int64 // bytes of messages that are complete; see Unread
	cutting atomic.Bool  // streams are being ended; see Read

	ready ready.Reader // owned by the goroutine that reads; see ReadOnReady

	coming sync.Mutex
	// Guarded by coming.
	in      incoming
	watch   *time.Timer // nil while nothing is incomplete; see watchLocked
	watchAt time.Time
	woken   bool // look has ended a read
	shut    bool // there is nothing more to look at

	mu sync.Mutex
	// Guarded by mu.
	out    outgoing
	notice []byte // frames that wait for the end of another

	claims sync.Mutex
	// Guarded by claims.
	release func() // what Claim has booked; nil for nothing
	closed  bool
}

// address is a remote address that knows its connection. grpc-go gives it to the
// handlers of streams, also where there is TLS in between.
type address struct {
	net.Addr

	conn *Conn
}

// isLocal tells whether the client is a process of this machine, on a Unix socket,
// whose own end has no name.
func (a *address) isLocal() bool { return a.Network() == "unix" }

// String is where the client comes from; on a Unix socket, which one it came by.
func (a *address) String() string {
	if a.isLocal() {
		return "unix:" + a.conn.raw.LocalAddr().String()
	}
	return a.Addr.String()
}

// Of is the connection that a remote address belongs to, nil if it came in by no
// door.
func Of(a net.Addr) *Conn {
	if from, ok := a.(*address); ok {
		return from.conn
	}
	return nil
}

// RemoteAddr is where the connection comes from. See [Of].
func (c *Conn) RemoteAddr() net.Addr { return &c.from }

// SetDeadline is called by grpc-go for a new connection, and with no time at all once
// HTTP/2 has begun on it.
func (c *Conn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.door.arrived(c)
	}
	return c.Conn.SetDeadline(t)
}

// Close ends the connection.
func (c *Conn) Close() error {
	c.door.arrived(c)
	c.door.left(c)
	c.giveBack()
	c.stopWatching()
	return c.Conn.Close()
}

// Old tells whether the connection has been there for long enough.
func (c *Conn) Old(now time.Time) bool { return c.oldAt != 0 && now.UnixNano() >= c.oldAt }

// Enter notes a stream that was admitted on the connection; Leave notes its end.
func (c *Conn) Enter() { c.streams.Add(1) }

// Leave notes the end of a stream; see [Conn.Enter].
func (c *Conn) Leave() {
	c.quietAt.Store(time.Now().UnixNano())
	c.streams.Add(-1)
}

// Streamless reports whether no admitted stream is open on the connection, and since
// when.
func (c *Conn) Streamless() (since time.Time, is bool) {
	if c.streams.Load() > 0 {
		return time.Time{}, false
	}
	return time.Unix(0, c.quietAt.Load()), true
}

// Arriving reports whether HTTP/2 has not begun on the connection.
func (c *Conn) Arriving() bool {
	c.door.mu.Lock()
	defer c.door.mu.Unlock()
	_, is := c.door.arriving[c]
	return is
}

// Abort closes a connection that is arriving; the server then sees its handshake fail.
func (c *Conn) Abort() { _ = c.raw.Close() }

// Write is called for whole frames one after the other, in pieces of any size.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.Conn.Write(p)
	c.out.pass(p[:n], c.ended, c.forget)
	if err == nil {
		err = c.noticeLocked()
	}
	return n, err
}

// GoAway tells the client to open no more streams on this connection, and then calls
// then. Streams that are open go on. It does not wait, but what it does waits for a
// write that goes on: a client that does not read holds it up until the connection
// is closed. The second time nothing happens: it returns false, and then is not
// called. With turn, the next connection from the same host is closed as it comes.
func (c *Conn) GoAway(why string, turn bool, then func()) bool {
	if c.gone.Swap(true) {
		return false
	}
	if turn {
		c.door.expect(c)
	}
	go func() {
		c.tell(goAway(http2.ErrCodeNo, why))
		then()
	}()
	return true
}

// tell sends frames between others. It may have to wait for a client that does not read.
func (c *Conn) tell(frames []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notice = append(c.notice, frames...)
	if c.noticeLocked() != nil {
		_ = c.Conn.Close() // what is on its way may be half a frame
	}
}

// Going tells whether the client was told to go.
func (c *Conn) Going() bool { return c.gone.Load() }

// noticeLocked writes what waits, if no frame is half written.
func (c *Conn) noticeLocked() error {
	if c.notice == nil || !c.out.between() {
		return nil
	}
	notice := c.notice
	c.notice = nil
	_, err := c.Conn.Write(notice)
	return err
}
