package relay_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// cable is a node's way to others, which can be cut to one address.
type cable struct {
	dial func(ctx context.Context, address string) (net.Conn, error)

	mu    sync.Mutex
	cut   map[string]bool          // guarded by mu
	slow  map[string]chan struct{} // guarded by mu; by address, closed when messages arrive again
	conns map[string][]net.Conn    // guarded by mu; by address, ended ones, too
}

func (c *cable) Dial(ctx context.Context, address string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut[address] {
		return nil, errors.New("cut")
	}
	conn, err := c.dial(ctx, address)
	if err == nil {
		c.conns[address] = append(c.conns[address], conn)
		conn = &slowConn{conn, c, address}
	}
	return conn, err
}

// slowConn is a connection of a cable.
type slowConn struct {
	net.Conn
	cable   *cable
	address string
}

func (c *slowConn) Read(p []byte) (n int, err error) {
	n, err = c.Conn.Read(p)
	c.cable.mu.Lock()
	arrives := c.cable.slow[c.address]
	c.cable.mu.Unlock()
	if arrives != nil {
		<-arrives
	}
	return n, err
}

// delay makes what an address sends arrive only once the returned function is called.
func (c *cable) delay(address string) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	arrives := make(chan struct{})
	c.slow[address] = arrives
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.slow, address)
		close(arrives)
	}
}

// set cuts the way to an address, or heals it.
func (c *cable) set(address string, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut[address] = cut; cut {
		for _, conn := range c.conns[address] {
			_ = conn.Close()
		}
		c.conns[address] = nil
	}
}

// wire gives each node cables of its own.
func (w *tierWorld) wire() map[string]*cable {
	cables := make(map[string]*cable)
	for _, name := range w.names {
		w.kill(name)
		cables[name] = &cable{dial: w.network.Dial, cut: make(map[string]bool), slow: make(map[string]chan struct{}), conns: make(map[string][]net.Conn)}
		w.options.Dial = cables[name].Dial
		w.start(name)
	}
	return cables
}

// TestOnToAnOwnerThatIsBehind: a key goes from one owner to another, which has lost the
// origin and the old owner a moment ago and holds what was before. Who followed the old
// one knows better, and sends nobody back.
func TestOnToAnOwnerThatIsBehind(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 3, variant, "red")
			cables := w.wire()
			w.populate()
			w.converged()
			w.streams(1)
			old := w.roster.owner("red")
			w.roster.change(old, func(m *shard.Member) { m.Draining = true })
			next := w.roster.owner("red")
			w.roster.change(old, func(m *shard.Member) { m.Draining = false })
			w.settle()
			w.streams(1)

			var clients []*xdstest.Auto
			for i, name := range w.names {
				n := len(everyVariant)
				cables[next].set(peerAddr(i), true)
				if name != old && name != next {
					clients = w.clients["red"][i*n : (i+1)*n]
				}
			}
			cables[next].set(w.origin.Addr(), true)
			w.set("red", 2)
			for _, c := range clients {
				c.WaitFor(t, "the change", func() bool { return len(w.origin.Differences("red", c)) == 0 })
			}
			frames := func() (n int) {
				for _, c := range clients {
					n += c.Stats().Frames
				}
				return n
			}
			before := frames()
			w.roster.change(old, func(m *shard.Member) { m.Draining = true })
			w.settle()
			if n := frames() - before; n > 0 {
				t.Errorf("clients were sent %d responses", n)
			}
			for _, c := range clients {
				if d := w.origin.Differences("red", c); len(d) > 0 {
					t.Errorf("a client was sent back: %q\n%s", d, c)
				}
			}
			for i := range w.names {
				cables[next].set(peerAddr(i), false)
			}
			cables[next].set(w.origin.Addr(), false)
			w.settle()
			w.converged()
			w.streams(1)
			w.check()
		})
	})
}

// TestBackToAnOwnerThatIsBehind: a node that gets a key from the origin, since the
// owner was out of reach, does not follow the owner again while that has lost the
// origin and holds what was before: clients would be sent back.
func TestBackToAnOwnerThatIsBehind(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 2, variant, "red")
			cables := w.wire()
			w.populate()
			w.converged()
			w.streams(1)
			owner, other := 0, 1
			if w.roster.owner("red") == w.names[1] {
				owner, other = 1, 0
			}

			cables[w.names[owner]].set(w.origin.Addr(), true)
			cables[w.names[other]].set(peerAddr(owner), true)
			w.streams(1) // of the other
			w.set("red", 2)
			n := len(everyVariant)
			clients := w.clients["red"][other*n : (other+1)*n]
			for _, c := range clients {
				c.WaitFor(t, "the change", func() bool { return len(w.origin.Differences("red", c)) == 0 })
			}
			synctest.Wait()
			var before []int
			for _, c := range clients {
				before = append(before, c.Stats().Frames)
			}
			cables[w.names[other]].set(peerAddr(owner), false)
			time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time
			for _, c := range clients {
				if d := w.origin.Differences("red", c); len(d) > 0 {
					t.Errorf("a client was sent back: %q", d)
				}
			}
			cables[w.names[owner]].set(w.origin.Addr(), false)
			w.converged()
			w.streams(1)
			for i, c := range clients {
				if n := c.Stats().Frames - before[i]; n > 0 {
					t.Errorf("a client was sent %d responses after the change\n%s", n, c)
				}
			}
			w.check()
		})
	})
}

// TestBackToAnOwnerThatHasYetToReceiveAChange is TestBackToAnOwnerThatIsBehind for an owner that has the
// origin, but gets a change later.
func TestBackToAnOwnerThatHasYetToReceiveAChange(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 2, variant, "red")
			cables := w.wire()
			w.populate()
			w.converged()
			w.streams(1)
			owner, other := 0, 1
			if w.roster.owner("red") == w.names[1] {
				owner, other = 1, 0
			}

			cables[w.names[other]].set(peerAddr(owner), true)
			w.streams(2)
			arrives := cables[w.names[owner]].delay(w.origin.Addr())
			cables[w.names[other]].set(peerAddr(owner), false)
			w.set("red", 2)
			n := len(everyVariant)
			clients := w.clients["red"][other*n : (other+1)*n]
			for _, c := range clients {
				c.WaitFor(t, "the change", func() bool { return len(w.origin.Differences("red", c)) == 0 })
			}
			var before []int
			for _, c := range clients {
				before = append(before, c.Stats().Frames)
			}
			time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time
			arrives()
			w.converged()
			w.streams(1)
			for i, c := range clients {
				if n := c.Stats().Frames - before[i]; n > 0 {
					t.Errorf("a client was sent %d responses after the change\n%s", n, c)
				}
			}
			w.check()
		})
	})
}
