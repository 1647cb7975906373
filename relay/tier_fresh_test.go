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
	cut   map[string]bool       // guarded by mu
	conns map[string][]net.Conn // guarded by mu; by address, ended ones, too
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
	}
	return conn, err
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
		cables[name] = &cable{dial: w.network.Dial, cut: make(map[string]bool), conns: make(map[string][]net.Conn)}
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
