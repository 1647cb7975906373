package xdstest

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// memoryBuffer is what a connection holds that was written and not read, in
// bytes and each way.
const memoryBuffer = 64 << 10

// memoryConn is one end of a connection of a [Memory].
type memoryConn struct {
	in, out    *memoryPipe
	here, peer net.Addr
	host       *Host       // nil for nobody's
	other      *memoryConn // the other end
}

// connect connects who dials with who listens; nil where a machine has gone.
func (m *Memory) connect(dialer, listener *Host, from, at net.Addr) (dialed, accepted *memoryConn) {
	up, down := newMemoryPipe(), newMemoryPipe()
	up.reverse, down.reverse = down, up
	dialed = &memoryConn{in: down, out: up, here: from, peer: at, host: dialer}
	accepted = &memoryConn{in: up, out: down, here: at, peer: from, host: listener}
	dialed.other, accepted.other = accepted, dialed
	if dialer == nil || listener == nil {
		return dialed, accepted
	}
	there, back := m.way(dialer.name, listener.name), m.way(listener.name, dialer.name)
	up.way, down.way = there, back
	there.add(up)
	back.add(down)
	if !dialer.add(dialed) || !listener.add(accepted) {
		dialed.reset()
		return nil, nil
	}
	return dialed, accepted
}

func (c *memoryConn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *memoryConn) Write(b []byte) (int, error) { return c.out.write(b) }

// Close lets the peer read what was written, and then the end.
func (c *memoryConn) Close() error {
	if !c.in.fell() { // else the other side is still to learn of it
		c.host.drop(c)
	}
	c.in.end(true)
	c.out.end(false)
	return nil
}

// reset ends the connection at once, for both sides.
func (c *memoryConn) reset() {
	for _, end := range []*memoryConn{c, c.other} {
		end.host.drop(end)
		end.in.reset()
	}
}

// fall ends the connection for this side; the other side hears nothing any more.
func (c *memoryConn) fall() {
	c.in.fall(true)
	c.out.fall(false)
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
	transit          transit      // written and not arrived
	closed           bool         // by who reads
	ended            bool         // by who writes
	broken           bool         // the connection was reset
	fallen           bool         // who writes has gone without a word
	mute             bool         // who reads has gone without a word
	reading, writing memoryDeadline

	over atomic.Bool // who reads can know that who writes has ended

	way     *memoryWay  // fixed; nil where there are no hosts
	reverse *memoryPipe // fixed; the other way of the connection
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
		case p.closed || p.mute:
			return 0, io.ErrClosedPipe
		case p.reading.passed:
			return 0, os.ErrDeadlineExceeded
		case p.broken:
			return 0, syscall.ECONNRESET
		case p.data.Len() > 0:
			p.changed.Broadcast()
			return p.data.Read(b)
		case p.ended && !p.underwayLocked():
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
		case p.ended, p.closed && p.reverse.over.Load():
			return n, io.ErrClosedPipe
		case p.writing.passed:
			return n, os.ErrDeadlineExceeded
		case p.broken || p.fallen:
			return n, syscall.ECONNRESET
		case p.closed && !p.mute: // which has not been heard of yet
			return len(b), nil
		}
		some := b[n:min(len(b), max(n, n+memoryBuffer-p.data.Len()-p.transit.bytes))]
		if len(some) > 0 {
			p.sendLocked(some)
		}
		if n += len(some); n == len(b) {
			return n, nil
		}
		p.changed.Wait()
	}
}

// sendLocked puts data where it is read, or on its way there.
func (p *memoryPipe) sendLocked(some []byte) {
	way := p.way.is()
	if !way.faulty() && len(p.transit.pieces) == 0 {
		_, _ = p.data.Write(some) // it never fails
		p.changed.Broadcast()
		return
	}
	p.transit.put(some, way)
	p.arriveLocked()
}

// underwayLocked reports whether something has been sent that has not arrived.
func (p *memoryPipe) underwayLocked() bool {
	return p.fallen || len(p.transit.pieces) > 0 || p.way.is().Stalled
}

// pump lets arrive what is due, after the way has changed.
func (p *memoryPipe) pump() {
	p.mu.Lock()
	p.arriveLocked()
	p.changed.Broadcast()
	over := p.overLocked()
	p.mu.Unlock()
	if over {
		p.reverse.wake()
	}
}

// overLocked notes whether who reads can know that who writes has ended: then writing
// fails, too. Before, it must not, as with TCP, where both hear of it at one time.
func (p *memoryPipe) overLocked() bool {
	over := p.ended && !p.underwayLocked()
	p.over.Store(over)
	return over
}

// wake lets all who wait look again.
func (p *memoryPipe) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed.Broadcast()
}

func (p *memoryPipe) arriveLocked() {
	if p.way.is().Stalled || p.fallen {
		return
	}
	if data := p.transit.take(time.Now()); len(data) > 0 {
		_, _ = p.data.Write(data) // it never fails
		p.changed.Broadcast()
	}
	p.transit.wake(p.pump)
}

// end closes the pipe for who reads, or for who writes.
func (p *memoryPipe) end(reader bool) {
	p.mu.Lock()
	if reader {
		p.closed = true
	} else {
		p.ended = true
	}
	over, heard := p.closed && p.ended, p.overLocked()
	p.changed.Broadcast()
	p.mu.Unlock()
	if heard {
		p.reverse.wake()
	}
	if over && heard {
		p.way.drop(p)
	}
}

// reset breaks the pipe for both ends, at once.
func (p *memoryPipe) reset() {
	p.mu.Lock()
	p.broken = true
	p.transit = transit{timer: p.transit.timer}
	p.transit.wake(nil)
	p.changed.Broadcast()
	p.mu.Unlock()
	p.way.drop(p)
}

// fell reports whether who reads has gone without a word.
func (p *memoryPipe) fell() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mute
}

// fall ends the pipe for who reads or writes, of which the other side hears nothing.
func (p *memoryPipe) fall(reader bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reader {
		p.mute = true
	} else {
		p.fallen = true
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
