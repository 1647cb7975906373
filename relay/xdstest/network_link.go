package xdstest

import (
	"net"
	"sync"
	"time"
)

// link is one connection through a [Network].
type link struct {
	network        *Network      // fixed
	client, server net.Conn      // fixed
	gone           chan struct{} // closed by reset
	once           sync.Once
}

// piece is data on its way.
type piece struct {
	data []byte
	came time.Time
}

// reset ends the link at once, for both sides.
func (l *link) reset() {
	l.once.Do(func() {
		close(l.gone)
		abort(l.client)
		abort(l.server)
	})
}

// run forwards both ways until both have ended.
func (l *link) run() {
	var wg sync.WaitGroup
	wg.Go(func() { l.forward(ToServer, l.client, l.server) })
	wg.Go(func() { l.forward(ToClient, l.server, l.client) })
	wg.Wait()
	l.reset()
}

// forward carries one way. Reading and writing are apart, so that a delay does
// not lower the throughput.
func (l *link) forward(way Direction, from, to net.Conn) {
	pieces := make(chan piece, 64)
	var wg sync.WaitGroup
	wg.Go(func() { l.read(way, from, pieces) })
	wg.Go(func() { l.write(way, to, pieces) })
	wg.Wait()
}

func (l *link) read(way Direction, from net.Conn, pieces chan<- piece) {
	defer close(pieces)
	buf := make([]byte, 16<<10)
	for {
		if !l.whileStalled(way) {
			return
		}
		n, err := from.Read(buf)
		if n > 0 {
			select {
			case pieces <- piece{append([]byte(nil), buf[:n]...), time.Now()}:
			case <-l.gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) write(way Direction, to net.Conn, pieces <-chan piece) {
	for p := range pieces {
		for len(p.data) > 0 {
			if !l.whileStalled(way) {
				return
			}
			f, changed := l.faults()
			if wait := time.Until(p.came.Add(f.delay)); f.delay > 0 && wait > 0 {
				if !l.wait(wait, changed) {
					return
				}
				continue // the faults may be others now
			}
			chunk := p.data
			if f.bandwidth > 0 {
				// About twenty writes a second: even enough, and cheap.
				chunk = chunk[:min(len(chunk), max(1, f.bandwidth/20))]
			}
			if _, err := to.Write(chunk); err != nil {
				l.reset()
				return
			}
			l.network.carried[way>>1].Add(int64(len(chunk)))
			p.data = p.data[len(chunk):]
			if f.bandwidth > 0 {
				pace := time.Duration(len(chunk)) * time.Second / time.Duration(f.bandwidth)
				if !l.wait(pace, changed) {
					return
				}
			}
		}
	}
	// The sender ended its half in order; so does its image here. A [Memory] has no
	// halves.
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	} else {
		_ = to.Close()
	}
}

// whileStalled waits until the way is open; it reports whether the link lives.
func (l *link) whileStalled(way Direction) bool {
	for {
		f, changed := l.faults()
		if f.stalled&way == 0 {
			return true
		}
		select {
		case <-changed:
		case <-l.gone:
			return false
		}
	}
}

// wait waits for d or a change of the faults; it reports whether the link lives.
func (l *link) wait(d time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-l.gone:
		return false
	}
	return true
}

func (l *link) faults() (faults, <-chan struct{}) {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	return l.network.faults, l.network.changed
}
