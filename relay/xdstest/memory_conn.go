package xdstest

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// memoryBuffer is what a connection holds that was written and not read, in
// bytes and each way.
const memoryBuffer = 64 << 10

// memoryConn is one end of a connection of a [Memory].
type memoryConn struct {
	in, out    *memoryPipe
	here, peer net.Addr
}

// newMemoryConns connects who dials with who listens at an address.
func newMemoryConns(dialer, at net.Addr) (dialed, accepted net.Conn) {
	up, down := newMemoryPipe(), newMemoryPipe()
	return &memoryConn{down, up, dialer, at}, &memoryConn{up, down, at, dialer}
}

func (c *memoryConn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *memoryConn) Write(b []byte) (int, error) { return c.out.write(b) }

// Close lets the peer read what was written, and then the end.
func (c *memoryConn) Close() error {
	c.in.end(true)
	c.out.end(false)
	return nil
}

func (c *memoryConn) LocalAddr() net.Addr  { return c.here }
func (c *memoryConn) RemoteAddr() net.Addr { return c.peer }

func (c *memoryConn) SetDeadline(at time.Time) error {
	c.in.setDeadline(&c.in.reading, at)
	c.out.setDeadline(&c.out.writing, at)
	return nil
}

func (c *memoryConn) SetReadDeadline(at time.Time) error {
	c.in.setDeadline(&c.in.reading, at)
	return nil
}

func (c *memoryConn) SetWriteDeadline(at time.Time) error {
	c.out.setDeadline(&c.out.writing, at)
	return nil
}

// memoryPipe is one way of a connection.
type memoryPipe struct {
	mu      sync.Mutex
	changed sync.Cond // with mu
	// Guarded by mu.
	data             bytes.Buffer // written and not read
	closed           bool         // by who reads
	ended            bool         // by who writes
	reading, writing memoryDeadline
}

// memoryDeadline bounds the calls of one direction. As with a socket it counts at
// once, and once it is taken back, nothing of it is left: net/http ends a read by a
// deadline in the past, takes it back, and reads on.
type memoryDeadline struct {
	timer  *time.Timer
	turn   int // of the timer that counts
	passed bool
}

func newMemoryPipe() *memoryPipe {
	p := &memoryPipe{}
	p.changed.L = &p.mu
	return p
}

func (p *memoryPipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed:
			return 0, io.ErrClosedPipe
		case p.reading.passed:
			return 0, os.ErrDeadlineExceeded
		case p.data.Len() > 0:
			p.changed.Broadcast()
			return p.data.Read(b)
		case p.ended:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

func (p *memoryPipe) write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed || p.ended:
			return n, io.ErrClosedPipe
		case p.writing.passed:
			return n, os.ErrDeadlineExceeded
		}
		some := b[n:min(len(b), n+memoryBuffer-p.data.Len())]
		if len(some) > 0 {
			_, _ = p.data.Write(some) // it never fails
			p.changed.Broadcast()
		}
		if n += len(some); n == len(b) {
			return n, nil
		}
		p.changed.Wait()
	}
}

// end closes the pipe for who reads, or for who writes.
func (p *memoryPipe) end(reader bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reader {
		p.closed = true
	} else {
		p.ended = true
	}
	p.changed.Broadcast()
}

// setDeadline sets one of the deadlines of p; the zero time is none.
func (p *memoryPipe) setDeadline(d *memoryDeadline, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop() // it may have fired already, and wait for mu
	}
	d.turn++
	d.timer, d.passed = nil, false
	left := time.Until(at)
	switch {
	case at.IsZero():
	case left <= 0:
		d.passed = true
		p.changed.Broadcast()
	default:
		turn := d.turn
		d.timer = time.AfterFunc(left, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if turn == d.turn {
				d.passed = true
				p.changed.Broadcast()
			}
		})
	}
}
