package h2

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
)

// preface begins a connection, ahead of SETTINGS.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// ErrGoingAway is returned by [Conn.Open] once the server has said GOAWAY.
var ErrGoingAway = errors.New("h2: the server is going away")

// Conn is one connection. Apart from [Conn.Do] and [Conn.Close], which anybody
// may call, it belongs to the goroutine that runs [Conn.Serve].
type Conn struct {
	// Fixed after construction.
	cfg  *Config
	net  net.Conn
	gone chan struct{} // closed by Close

	closing sync.Once

	mu    sync.Mutex
	tasks []func() // guarded by mu; what Do was given and nobody has run

	// All below is owned by Serve's goroutine.
	in      input
	rx      receiving
	tx      sending
	streams map[uint32]*Stream
	nextID  uint32
	away    error // why there can be no new streams; nil for none
	paused  bool
	slow    int // bytes per second that are read; 0 means as fast as it goes
}

func newConn(nc net.Conn, cfg *Config) *Conn {
	c := &Conn{cfg: cfg, net: nc, gone: make(chan struct{}), streams: make(map[uint32]*Stream, 1), nextID: 1}
	c.in.init(nc)
	c.rx.left = cfg.ConnWindow
	c.tx.window, c.tx.initial = defaultWindow, defaultWindow
	if cfg.Plain {
		return c
	}
	b := append(c.buffer(), preface...)
	b = appendFrameHeader(b, 3*6, frameSettings, 0, 0)
	b = appendSetting(b, settingEnablePush, 0)
	b = appendSetting(b, settingHeaderTableSize, 0)
	b = appendSetting(b, settingInitialWindowSize, uint32(cfg.StreamWindow))
	if more := cfg.ConnWindow - defaultWindow; more > 0 {
		b = appendWindowUpdate(b, 0, more)
	}
	*c.tx.out = b
	return c
}

// Serve takes what the server sends until the connection ends, and says why it
// did. All streams have ended when it returns. The connection is closed then.
func (c *Conn) Serve() error {
	err := c.serve()
	if p, ok := errors.AsType[*ProtocolError](err); ok {
		*c.tx.out = appendGoAway(c.buffer(), p.code)
		_ = c.net.SetWriteDeadline(time.Now().Add(time.Second)) // it is a courtesy
		_ = c.flush()
	}
	c.Close()
	c.in.drop()
	if c.away == nil {
		c.away = err
	}
	for id, s := range c.streams {
		delete(c.streams, id)
		s.finish(Status{Code: codes.Unavailable, Message: err.Error()})
	}
	return err
}

func (c *Conn) serve() error {
	for {
		if err := c.flush(); err != nil {
			return err
		}
		if c.away != nil && len(c.streams) == 0 {
			return c.away
		}
		if c.paused {
			<-c.gone
			return net.ErrClosed
		}
		b, err := c.in.await(c.readLimit())
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if err := c.work(); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		if c.cfg.Traffic != nil {
			c.cfg.Traffic.In.Add(int64(c.in.fresh))
		}
		rest, err := c.consume(b)
		if err == nil {
			c.in.keep(rest)
		}
		c.in.release()
		if err != nil {
			return err
		}
		if err := c.pace(); err != nil {
			return err
		}
	}
}

// Do runs f on the goroutine of Serve, soon. It is not run if the connection
// ends before, nor while it is paused.
func (c *Conn) Do(f func()) {
	c.mu.Lock()
	c.tasks = append(c.tasks, f)
	c.mu.Unlock()
	_ = c.net.SetReadDeadline(time.Unix(1, 0)) // wakes the reader; fails on a closed connection only
}

// work runs what was asked for by Do, and lets reading go on.
func (c *Conn) work() error {
	// The deadline first: who adds a task sets it after that.
	if err := c.net.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	c.mu.Lock()
	tasks := c.tasks
	c.tasks = nil
	c.mu.Unlock()
	for _, f := range tasks {
		f()
	}
	return nil
}

// Close ends the connection without a word, from any goroutine.
func (c *Conn) Close() {
	c.closing.Do(func() {
		close(c.gone)
		_ = c.net.Close()
	})
}

// Pause stops reading for good, with the connection open.
func (c *Conn) Pause() { c.paused = true }

// SetReadRate bounds how many bytes are read per second; 0 means no bound.
func (c *Conn) SetReadRate(bytesPerSecond int) { c.slow = bytesPerSecond }

// readLimit is how much is read at once.
func (c *Conn) readLimit() int {
	if c.slow == 0 {
		return readSize
	}
	// About ten times a second, so that a slow reader is slow in small steps.
	return min(max(c.slow/10, 1), readSize)
}

// pace waits as long as the read rate demands after what was read last.
func (c *Conn) pace() error {
	if c.slow == 0 {
		return nil
	}
	if err := c.flush(); err != nil {
		return err
	}
	t := time.NewTimer(time.Duration(c.in.fresh) * time.Second / time.Duration(c.slow))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.gone:
		return net.ErrClosed
	}
}

// Usable reports whether a stream can be opened.
func (c *Conn) Usable() bool { return c.away == nil }

// Streams is the number of open streams.
func (c *Conn) Streams() int { return len(c.streams) }

// goAway notes that the server takes no streams beyond last.
func (c *Conn) goAway(last, code uint32, text []byte) {
	c.away = ErrGoingAway
	if code != codeNo {
		c.away = fmt.Errorf("%w: code %d, %q", ErrGoingAway, code, text)
	}
	for id, s := range c.streams {
		if id > last {
			delete(c.streams, id)
			s.finish(Status{Code: codes.Unavailable, Message: c.away.Error()})
		}
	}
}

// receiveBuffer sets a socket's receive buffer.
func receiveBuffer(c syscall.RawConn, n int) error {
	var err error
	if e := c.Control(func(fd uintptr) { err = setReceiveBuffer(fd, n) }); e != nil {
		return e
	}
	return err
}
