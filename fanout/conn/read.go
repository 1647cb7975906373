package conn

import (
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/mem"

	"xdsrelay/fanout/ready"
)

// Bounds are how much of a client's may be incomplete, and for how long. 0 means any.
type Bounds struct {
	// First is for the first request of a stream, from its headers on; Request for any
	// other one, and for a frame and the headers of a stream.
	First, Request time.Duration
	// Size is of all requests on a connection that are not complete, in bytes that they
	// take.
	Size int
	// Streams is how many there may be that are not complete, which is far beyond the
	// streams that a connection may have: data may come of streams that there are not.
	Streams int
}

// Fault is what is wrong with a client that is beyond the [Bounds].
type Fault int

// Faults.
const (
	LateFirst   Fault = iota // the first request of a stream is not complete
	LateRequest              // another request is not complete
	LateFrame                // a frame or the headers of a stream are not complete
	TooMuch                  // all requests that are not complete are too large together
	TooMany                  // there are too many of them
)

// Read follows what comes. Where a stream has to end it goes on with a frame that resets
// it, as if that came from the client, so that the server drops what has come; and the
// client is sent another.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		if c.cutting.Load() {
			n, most := c.inject(p)
			if n > 0 {
				return n, nil
			}
			p = p[:most]
		}
		n, err := c.Conn.Read(p)
		if n == 0 && c.wasWokenBy(err) {
			continue
		}
		if refused := c.follow(p[:n]); refused != nil {
			return 0, refused
		}
		return n, err
	}
}

// ReadOnReady is Read into a buffer that is taken from the pool when there is something to
// read: grpc-go finds this method and pins no buffer while the client is idle.
func (c *Conn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	if c.ready == nil {
		c.ready = ready.NewReader(c.Conn)
	}
	for {
		if c.cutting.Load() {
			buf := pool.Get(size)
			n, most := c.inject((*buf)[:size])
			if n > 0 {
				return buf, n, nil
			}
			pool.Put(buf)
			size = most
		}
		buf, n, err := c.ready.ReadOnReady(size, pool)
		if n == 0 && c.wasWokenBy(err) {
			continue
		}
		if n > 0 {
			if refused := c.follow((*buf)[:n]); refused != nil {
				pool.Put(buf)
				return nil, 0, refused
			}
		}
		return buf, n, err
	}
}

// follow follows what was read, and ends the connection if that has to be.
func (c *Conn) follow(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if why := c.took(p); why != "" {
		c.refuse(why)
		return net.ErrClosed
	}
	return nil
}

// wasWokenBy reports whether a read has ended with err for no other reason than look.
func (c *Conn) wasWokenBy(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) && c.wasWoken()
}

func (c *Conn) inject(p []byte) (n, most int) {
	c.coming.Lock()
	defer c.coming.Unlock()
	if reset := c.in.wereCut(); reset != nil {
		go c.tell(reset)
	}
	n, most = c.in.inject(p)
	c.cutting.Store(n > 0 || len(c.in.cuts) > 0)
	return n, most
}

// took looks at what was read. It returns why the connection has to end, if it has.
func (c *Conn) took(p []byte) (why string) {
	c.coming.Lock()
	defer c.coming.Unlock()
	c.in.take(p, time.Now)
	if c.in.ready > 0 {
		c.waiting.Add(int64(c.in.ready))
		c.in.ready = 0
	}
	if c.in.since.IsZero() && c.in.partial == nil {
		return ""
	}
	b := c.door.cfg.Bounds()
	if b.Streams > 0 && len(c.in.partial) > b.Streams && !c.shut {
		c.shut = true
		return c.door.cfg.Faulty(c.from.String(), TooMany)
	}
	for b.Size > 0 && c.in.size > b.Size {
		stream, m := c.in.oldest()
		c.cutLocked(stream, m, TooMuch)
	}
	c.watchLocked(c.in.freshDue(b))
	return ""
}

// cutLocked ends a stream.
func (c *Conn) cutLocked(stream uint32, m message, why Fault) {
	c.in.cut(stream, m)
	c.cutting.Store(true)
	c.door.cfg.Faulty(c.from.String(), why)
}

// watchLocked makes sure that the connection is looked at when something is late: at due,
// or never if that is zero.
func (c *Conn) watchLocked(due time.Time) {
	switch {
	case due.IsZero() || c.shut || c.watch != nil && !due.Before(c.watchAt):
		return
	case c.watch == nil:
		c.watch = time.AfterFunc(time.Until(due), c.look)
	default:
		c.watch.Reset(time.Until(due))
	}
	c.watchAt = due
}

// look ends what is late.
func (c *Conn) look() {
	if why := c.lookAtStreams(); why != "" {
		c.refuse(why)
	}
}

// lookAtStreams ends streams that are late, and returns why the connection has to end
// if it is late itself.
func (c *Conn) lookAtStreams() (why string) {
	c.coming.Lock()
	defer c.coming.Unlock()
	c.watch = nil // a timer takes 150 bytes: none is kept that nobody waits for
	if c.shut {
		return ""
	}
	now, b := time.Now(), c.door.cfg.Bounds()
	if b.Request > 0 && !c.in.since.IsZero() && now.Sub(c.in.since) >= b.Request {
		c.shut = true
		return c.door.cfg.Faulty(c.from.String(), LateFrame)
	}
	for stream, m := range c.in.partial {
		due := m.due(b)
		if due.IsZero() || now.Before(due) {
			continue
		}
		why := LateRequest
		if m.awaited {
			why = LateFirst
		}
		c.cutLocked(stream, m, why)
	}
	if len(c.in.cuts) > 0 && !c.woken {
		c.woken = true
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // who reads comes back, and reads what ends them
	}
	if due := c.in.due(b); !due.IsZero() {
		if soonest := now.Add(lookPause); due.Before(soonest) {
			due = soonest // a look costs as much as there is
		}
		c.watchLocked(due)
	}
	return ""
}

// lookPause is the least time between two looks at a connection.
const lookPause = 20 * time.Millisecond

// wasWoken tells whether a read has ended for no other reason than look.
func (c *Conn) wasWoken() bool {
	c.coming.Lock()
	defer c.coming.Unlock()
	if !c.woken {
		return false
	}
	c.woken = false
	return c.Conn.SetReadDeadline(time.Time{}) == nil
}

// forget forgets a stream that the server has ended.
func (c *Conn) forget(stream uint32) {
	c.coming.Lock()
	defer c.coming.Unlock()
	c.in.drop(stream)
}

// stopWatching is called when the connection is closed.
func (c *Conn) stopWatching() {
	c.coming.Lock()
	defer c.coming.Unlock()
	c.shut = true
	if c.watch != nil {
		c.watch.Stop()
		c.watch = nil
	}
}

// refuseTime is what a client that is refused has to read why.
const refuseTime = time.Second

// refuse ends the connection, and tells why if something else is not half written.
func (c *Conn) refuse(why string) {
	if c.mu.TryLock() {
		if c.out.between() && c.Conn.SetWriteDeadline(time.Now().Add(refuseTime)) == nil {
			_, _ = c.Conn.Write(goAway(http2.ErrCodeEnhanceYourCalm, why))
		}
		c.mu.Unlock()
	}
	_ = c.Conn.Close()
}

// Taken says that a message of so many bytes was taken of a stream. It is not called for
// a stream's first.
func (c *Conn) Taken(size int) {
	if c.waiting.Add(-int64(size)-int64(len(message{}.prefix))) < 0 {
		c.waiting.Store(0) // something that came just now may get lost, which is little
	}
}

// Unread is how many bytes of messages have come that nobody has taken: all that there
// is of those that are not complete, and those that are. A stream's first is not among
// the latter, since its handler waits for it, and the services that do not say what they
// have taken are mostly asked no more.
//
// What lies complete is known by its sum alone: a stream that ends before it was taken
// leaves it there, which is no more than the window of a stream.
func (c *Conn) Unread() int {
	c.coming.Lock()
	partial := c.in.size
	c.coming.Unlock()
	return partial + max(int(c.waiting.Load()), 0)
}
