package fleet

import (
	"sync/atomic"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/fleet/h2"
)

// client is one simulated client. What is not atomic belongs to the goroutine
// of its connection.
type client struct {
	// Fixed after construction.
	link   *link
	view   *view
	meter  *meter
	number int
	role   role
	audit  *audit // nil for those that remember a few nonces only

	subs  [kinds]sub
	begun time.Time // when the wait for a full state began
	named bool      // the node was sent on the one stream for all types
	half  bool      // half of the subscriptions was dropped
	tries int       // how often its streams ended, without a response since

	// Written by the connection's goroutine.
	open   atomic.Bool // it has its streams
	synced atomic.Bool // it holds all that it has to
}

// sub is what a client has of a type.
type sub struct {
	state atomic.Pointer[state] // what it holds; written by the connection's goroutine
	names *set                  // what it asks for; everything for a wildcard
	onStream
}

// onStream is the part of a subscription that lives as long as the stream.
type onStream struct {
	stream   *h2.Stream // nil for none
	said     bool       // there was a request for the type
	asked    *set       // what it has asked for
	allow    *set       // what may come once more although it holds it
	again    *set       // what it has asked for again, which may come at any time
	nonce    []byte     // the last one; SotW only
	nonces   nonces
	rejected uint64 // the hash of the response that it rejected last; 0 for none
}

func newClient(l *link, number int, r role) *client {
	f := l.fleet
	c := &client{link: l, number: number, role: r, view: f.views[number%len(f.views)], meter: f.meters[number%len(f.meters)]}
	if number%auditEvery == 0 {
		c.audit = &audit{}
	}
	c.forget()
	return c
}

// String names the client in messages.
func (c *client) String() string {
	return content.NodeID(c.number) + " of " + content.KeyName(c.view.key)
}

// forget makes it a client that never held anything.
func (c *client) forget() {
	for k := range kinds {
		c.subs[k].state.Store(nothing)
		c.subs[k].names = nil
		if k.info().wild {
			c.subs[k].names = everything
		}
	}
	c.half = false
	c.setSynced(false)
}

func (c *client) setSynced(now bool) {
	if c.synced.Swap(now) != now {
		c.link.fleet.synced.Add(oneOr(now))
	}
}

func (c *client) setOpen(now bool) {
	if c.open.Swap(now) != now {
		c.link.fleet.connected.Add(oneOr(now))
	}
}

func oneOr(plus bool) int64 {
	if plus {
		return 1
	}
	return -1
}

// start opens the client's streams and asks for what it wants.
func (c *client) start(conn *h2.Conn) error {
	f := c.link.fleet
	c.named = false
	c.audit.clear()
	var one *h2.Stream
	for k := range kinds {
		s := &c.subs[k]
		s.onStream = onStream{asked: s.names}
		if !f.types.has(k) {
			continue
		}
		if !f.cfg.Delta {
			s.allow = everything // a SotW server does not know what it holds
		}
		if s.stream = one; one == nil {
			var err error
			if s.stream, err = conn.Open(f.calls[k], c); err != nil {
				return err
			}
			if !f.cfg.PerType {
				one = s.stream
			}
		}
	}
	for k := range kinds {
		if f.types.has(k) {
			c.ask(k, c.subs[k].names, nil)
		}
	}
	c.setOpen(true)
	return nil
}

// lost is a client whose connection has ended.
func (c *client) lost() {
	c.setOpen(false)
	for k := range kinds {
		c.subs[k].stream = nil
	}
}

// hangUp ends the client's streams.
func (c *client) hangUp() {
	for k := range kinds {
		if s := c.subs[k].stream; s != nil {
			s.Cancel()
		}
	}
	c.lost()
}

// End is told that one of the client's streams has ended. It comes back with
// all of them, on this connection if others live on it.
func (c *client) End(_ *h2.Stream, st h2.Status) {
	conn := c.link.conn.Load()
	c.link.fleet.ended(c, st, conn.Usable())
	c.hangUp()
	switch {
	case !conn.Usable(): // it ends by itself
	case conn.Streams() == 0:
		c.link.left = true
		conn.Close()
	default:
		c.tries++
		time.AfterFunc(backoff(c.tries), func() { conn.Do(func() { c.restart(conn) }) })
	}
}

// restart opens the streams of a client that has none.
func (c *client) restart(conn *h2.Conn) {
	if c.open.Load() || !conn.Usable() {
		return
	}
	if err := c.start(conn); err != nil {
		conn.Close() // and the link begins anew
	}
}

// complete reports whether the client holds all that it has to.
func (c *client) complete() bool {
	f := c.link.fleet
	for k := range kinds {
		if !f.types.has(k) {
			continue
		}
		st := c.subs[k].state.Load()
		if p := k.parent(); p != kinds && !c.subs[p].state.Load().has.within(st.has) {
			return false
		}
		if k.info().wild && (!st.answered || st.has.len() < f.cfg.count(k)) {
			return false
		}
	}
	return !c.half
}

// look notes that the client is complete, at a time in ns since 1970.
func (c *client) look(at int64) {
	if c.synced.Load() || !c.complete() {
		return
	}
	if !c.begun.IsZero() {
		c.meter.synced(time.Duration(at - c.begun.UnixNano()))
		c.begun = time.Time{}
	}
	c.setSynced(true)
}
