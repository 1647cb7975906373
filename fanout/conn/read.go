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

// Bounds limit the incomplete input of a client in time and size. 0 means unlimited.
type Bounds struct {
	// First is the time for the first request of a stream, from its headers on. Request is the time
	// for any other request, for a frame and for a header block.
	First, Request time.Duration
	// Size is the memory of all incomplete requests on a connection, in bytes.
	Size int
	// Streams is the number of incomplete requests on a connection. It is far above the streams
	// that a connection may have, because data may arrive for streams that do not exist.
	Streams int
}

// Fault says how a client exceeded the [Bounds].
type Fault int

// The faults.
const (
	LateFirst   Fault = iota // the first request of a stream is incomplete
	LateRequest              // another request is incomplete
	LateFrame                // a frame or a header block is incomplete
	TooMuch                  // the incomplete requests take too much memory together
	TooMany                  // there are too many incomplete requests
)

// Read tracks what it reads. To end a stream it returns a frame that resets it, as if the client
// had sent one, so that the server drops what it has of the request. The client gets a reset as
// well.
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

// ReadOnReady is Read into a buffer that is taken from the pool when there is data to read: grpc-go
// detects this method and then pins no buffer for an idle client.
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

// follow tracks what was read, and ends the connection if it exceeds the Bounds.
func (c *Conn) follow(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if why := c.inspect(p); why != "" {
		c.refuse(why)
		return net.ErrClosed
	}
	return nil
}

// wasWokenBy reports whether endLate caused the error of a read.
func (c *Conn) wasWokenBy(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) && c.wasWoken()
}

func (c *Conn) inject(p []byte) (n, most int) {
	c.coming.Lock()
	defer c.coming.Unlock()
	if reset := c.in.wereCut(); reset != nil {
		go c.sendFrames(reset)
	}
	n, most = c.in.inject(p)
	c.cutting.Store(n > 0 || len(c.in.cuts) > 0)
	return n, most
}

// inspect tracks what was read. It returns why the connection must end, or "".
func (c *Conn) inspect(p []byte) (why string) {
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
	b := c.listener.cfg.Bounds()
	if b.Streams > 0 && len(c.in.partial) > b.Streams && !c.shut {
		c.shut = true
		return c.listener.cfg.Faulty(c.from.String(), TooMany)
	}
	for b.Size > 0 && c.in.size > b.Size {
		stream, m := c.in.oldest()
		c.cutLocked(stream, m, TooMuch)
	}
	c.watchLocked(c.in.freshDue(b))
	return ""
}

// cutLocked resets a stream.
func (c *Conn) cutLocked(stream uint32, m message, why Fault) {
	c.in.cut(stream, m)
	c.cutting.Store(true)
	c.listener.cfg.Faulty(c.from.String(), why)
}

// watchLocked schedules endLate at due; zero means never.
func (c *Conn) watchLocked(due time.Time) {
	switch {
	case due.IsZero() || c.shut || c.watch != nil && !due.Before(c.watchAt):
		return
	case c.watch == nil:
		c.watch = time.AfterFunc(time.Until(due), c.endLate)
	default:
		c.watch.Reset(time.Until(due))
	}
	c.watchAt = due
}

// endLate ends what is late.
func (c *Conn) endLate() {
	if why := c.endLateStreams(); why != "" {
		c.refuse(why)
	}
}

// endLateStreams resets late streams. It returns why the connection must end if it is late itself,
// or "".
func (c *Conn) endLateStreams() (why string) {
	c.coming.Lock()
	defer c.coming.Unlock()
	c.watch = nil // a timer takes 150 bytes, so none is kept while nothing is incomplete
	if c.shut {
		return ""
	}
	now, b := time.Now(), c.listener.cfg.Bounds()
	if b.Request > 0 && !c.in.since.IsZero() && now.Sub(c.in.since) >= b.Request {
		c.shut = true
		return c.listener.cfg.Faulty(c.from.String(), LateFrame)
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
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // the reader returns and then reads the resets
	}
	if due := c.in.due(b); !due.IsZero() {
		if soonest := now.Add(endLatePause); due.Before(soonest) {
			due = soonest // the cost of a check grows with what is incomplete
		}
		c.watchLocked(due)
	}
	return ""
}

// endLatePause is the least time between two checks of a connection.
const endLatePause = 20 * time.Millisecond

// wasWoken reports whether endLate interrupted a read, and clears that.
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

// refuseTime is how long writing the reason to a refused client may take.
const refuseTime = time.Second

// refuse closes the connection. It sends the reason first unless a frame is half written.
func (c *Conn) refuse(why string) {
	if c.mu.TryLock() {
		if c.out.between() && c.Conn.SetWriteDeadline(time.Now().Add(refuseTime)) == nil {
			_, _ = c.Conn.Write(goAway(http2.ErrCodeEnhanceYourCalm, why))
		}
		c.mu.Unlock()
	}
	_ = c.Conn.Close()
}

// MessageRead records that the server has read a message of size bytes from a stream. It is not
// called for the first message of a stream.
func (c *Conn) MessageRead(size int) {
	if c.waiting.Add(-int64(size)-int64(len(message{}.prefix))) < 0 {
		c.waiting.Store(0) // bytes that arrive at this moment may get lost, which is little
	}
}

// Unread returns the bytes of received messages that the server has not read: incomplete and
// complete ones. The first message of a stream counts only while it is incomplete: its handler
// waits for it, and services that do not call MessageRead mostly get no further message.
//
// Complete messages are known only by their sum: a stream that ends before they are read leaves
// them counted, which is at most the window of one stream.
func (c *Conn) Unread() int {
	c.coming.Lock()
	partial := c.in.size
	c.coming.Unlock()
	return partial + max(int(c.waiting.Load()), 0)
}
