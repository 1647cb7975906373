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

// TestBackToAnOwnerThatIsBehind: a node that gets a key from the origin, since the
// owner was out of reach, does not follow the owner again while that has lost the
// origin and holds what was before: clients would be sent back.
func TestBackToAnOwnerThatIsBehind(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 2, variant, "red")
			cables := make(map[string]*cable)
			for _, name := range w.names {
				w.kill(name)
				cables[name] = &cable{dial: w.network.Dial, cut: make(map[string]bool), conns: make(map[string][]net.Conn)}
				w.options.Dial = cables[name].Dial
				w.start(name)
			}
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
			for _, c := range clients {
				// Two states of three types, or of one.
				if got := c.Stats().Frames; got > 8 {
					t.Errorf("a client was sent %d responses", got)
				}
			}
			w.check()
		})
	})
}
