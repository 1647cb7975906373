package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"xdsrelay/bench/fleet/h2"
)

// link is a connection and the clients on it. It dials again whenever the
// connection ends, for as long as the fleet lives.
type link struct {
	// Fixed after construction.
	fleet   *Fleet
	number  int
	role    role
	clients []*client
	tls     *tls.Config // nil for plaintext

	conn   atomic.Pointer[h2.Conn] // the last one
	kicked atomic.Int32            // what was asked for; one of the kicks
	away   atomic.Int64            // how long to wait before the next connection, in ns

	// Owned by the goroutine of run.
	answered bool // there was a response on the connection
	left     bool // the connection was closed since no stream was left
}

// What a link can be told to do: connect anew, with what its clients hold or
// without.
const (
	kickNone int32 = iota
	kickWarm
	kickCold
)

// kick ends the connection, so that the link connects anew at once.
func (l *link) kick(how int32) {
	l.kicked.Store(how)
	if conn := l.conn.Load(); conn != nil {
		conn.Close()
	}
}

// run keeps the link connected until ctx ends.
func (l *link) run(ctx context.Context) {
	for attempt, failed := 0, 0; ; attempt++ {
		if failed > 0 && !l.pause(ctx, backoff(failed)) {
			return
		}
		if !l.fleet.ramp.take(ctx) {
			return
		}
		now := time.Now()
		for _, c := range l.clients {
			if c.begun.IsZero() && !c.synced.Load() {
				c.begun = now
			}
		}
		conn, err := l.dial(ctx, attempt)
		l.fleet.ramp.give()
		if err == nil {
			err = l.serve(ctx, conn)
		}
		if ctx.Err() != nil {
			return
		}
		failed++
		if l.answered {
			failed = 1
		}
		switch l.kicked.Swap(kickNone) {
		case kickNone:
			if !l.left { // and the stream's end was counted
				l.fleet.failed(l, err)
			}
		case kickCold:
			for _, c := range l.clients {
				c.forget()
				c.begun = time.Now().Add(time.Duration(l.away.Load()))
			}
			failed = 0
		case kickWarm:
			failed = 0
		}
		l.answered, l.left = false, false
		if away := time.Duration(l.away.Swap(0)); away > 0 && !l.pause(ctx, away) {
			return
		}
	}
}

// dial makes a connection, in a goroutine of its own: it takes more stack than
// anything that follows, and stacks do not shrink soon.
func (l *link) dial(ctx context.Context, attempt int) (conn *h2.Conn, err error) {
	f := l.fleet
	dialer := f.dialer
	if l.role == stuck {
		dialer = f.narrow
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
		defer cancel()
		conn, err = dialer.DialTLS(ctx, f.cfg.Addrs[(l.number+attempt)%len(f.cfg.Addrs)], f.source(l.number), l.tls)
	}()
	<-done
	return conn, err
}

// serve lets the clients use a connection until it ends.
func (l *link) serve(ctx context.Context, conn *h2.Conn) error {
	if l.role == slow {
		conn.SetReadRate(l.fleet.cfg.SlowRate)
	}
	l.conn.Store(conn)
	if l.kicked.Load() != kickNone || ctx.Err() != nil { // before there was something to close
		conn.Close()
	}
	for _, c := range l.clients {
		if err := c.start(conn); err != nil {
			conn.Close()
			break
		}
	}
	err := conn.Serve()
	for _, c := range l.clients {
		c.lost()
	}
	return err
}

// pause waits, and returns false if there is nothing to wait for any more.
func (l *link) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Envoy's backoff: full jitter, 500 ms to begin with, 30 s at most.
const (
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 30 * time.Second
)

// backoff is how long to wait after so many failures.
func backoff(failures int) time.Duration {
	limit := lastBackoff
	if failures < 8 {
		limit = min(limit, firstBackoff<<(failures-1))
	}
	return rand.N(limit)
}

// failed counts a connection that could not be made, or that ended.
func (f *Fleet) failed(l *link, err error) {
	if _, ok := errors.AsType[*h2.ProtocolError](err); ok {
		f.violations.add(l.clients[0].String(), problemf(Transport, "%v", err))
	}
	what := "connection"
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		what = "dial"
	}
	f.ends.add(what, err.Error())
}

// ended counts a stream that ended without our doing. What ended with its
// connection is counted as that.
func (f *Fleet) ended(c *client, st h2.Status, alone bool) {
	if st.Breach {
		f.violations.add(c.String(), problemf(Transport, "%s", st.Message))
	}
	switch {
	case st.Told:
		f.ends.add(st.Code.String(), st.Message)
	case alone:
		f.ends.add("stream", st.String())
	}
}
