package fanout

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/xdstest"
)

// crowd is some streams, of which each frame is acknowledged and reported.
type crowd struct {
	*world
	streams  []*xdstest.Stream
	received chan string // "stream: version of a", for each frame
	v        int
}

// newCrowd opens streams of both variants that ask for the same by names, or for all.
func newCrowd(t *testing.T, n int, change ...func(*Config)) *crowd {
	c := &crowd{world: newWorld(t, change...), received: make(chan string, 1000)}
	for i := range n {
		s := c.open(i%2 == 0)
		c.streams = append(c.streams, s)
		if i%3 == 0 {
			s.Subscribe(cds)
		} else {
			s.Subscribe(cds, "a")
		}
	}
	c.asked(cds, []string{"*", "a"}[:min(n, 2)]...)
	c.publish()
	for i, s := range c.streams {
		s.Ack(has(t, s.Recv(t), "a"))
		go func() {
			for {
				f, err := s.Next(time.Hour, func(*xdstest.Frame) bool { return true })
				if err != nil {
					return
				}
				s.Ack(f)
				c.received <- fmt.Sprint(i)
			}
		}()
	}
	t.Cleanup(func() {
		for _, s := range c.streams {
			s.Cancel()
		}
	})
	return c
}

func (c *crowd) publish() {
	c.v++
	c.serve("", cds, cluster("a", c.v))
}

// expect waits until n streams have received what was published.
func (c *crowd) expect(what string, n int) {
	c.t.Helper()
	for i := range n {
		select {
		case <-c.received:
		case <-time.After(xdstest.Patience):
			c.t.Fatalf("%s: %d of %d streams got the change", what, i, n)
		}
	}
}

// TestNothingBlocksThePool: K19: whatever one stream waits for, all the others get their
// changes meanwhile, and that one afterwards.
func TestNothingBlocksThePool(t *testing.T) {
	const n = 7
	t.Run("the lock of each stream in turn", func(t *testing.T) {
		c := newCrowd(t, n)
		for _, st := range c.srv.snapshot() {
			st.mu.Lock()
			c.publish()
			c.expect("while one is locked", n-1)
			st.mu.Unlock()
			c.expect("once it is unlocked", 1)
		}
	})
	t.Run("the locks of all but one", func(t *testing.T) {
		c := newCrowd(t, n)
		locked, unlock := make(chan struct{}), make(chan struct{})
		for _, st := range c.srv.snapshot()[1:] {
			go func() { // no goroutine holds the locks of two streams
				st.mu.Lock()
				locked <- struct{}{}
				<-unlock
				st.mu.Unlock()
			}()
		}
		for range n - 1 {
			<-locked
		}
		c.publish()
		c.expect("while the others are locked", 1)
		close(unlock)
		c.expect("once they are unlocked", n-1)
	})
	t.Run("a NACK that is logged", func(t *testing.T) {
		log := newBlockedLog("response rejected by a client")
		c := newCrowd(t, n, func(cfg *Config) { cfg.Logger = slog.New(log) })
		s := c.open(false)
		s.Subscribe(cds, "a")
		s.Nack(has(t, s.Recv(t), "a"), "no")
		log.wait(t)
		defer close(log.release)
		c.publish()
		c.expect("while the NACK is logged", n)
		has(t, s.Recv(t), "a")
	})
	t.Run("a limit that is logged", func(t *testing.T) {
		log := newBlockedLog("a limit was reached")
		c := newCrowd(t, n, func(cfg *Config) { cfg.Logger, cfg.MaxNames = slog.New(log), 3 })
		s := c.open(false)
		s.Subscribe(eds, "x", "y", "z")
		s.Subscribe(cds, "a")
		log.wait(t)
		defer close(log.release)
		c.publish()
		c.expect("while the limit is logged", n)
	})
	t.Run("a client's resources that are shown", func(t *testing.T) {
		c := newCrowd(t, n)
		shown, done := make(chan struct{}), make(chan struct{})
		go c.srv.Clients()[0].Resources(func(ResourceStatus) bool {
			close(shown)
			<-done
			return false
		})
		<-shown
		defer close(done)
		c.publish()
		c.expect("while resources are shown", n)
	})
}

// blockedLog blocks the line of one message.
type blockedLog struct {
	slog.Handler
	message          string
	reached, release chan struct{}
}

func newBlockedLog(message string) *blockedLog {
	return &blockedLog{slog.DiscardHandler, message, make(chan struct{}, 1), make(chan struct{})}
}

func (b *blockedLog) Enabled(context.Context, slog.Level) bool { return true }

func (b *blockedLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == b.message {
		b.reached <- struct{}{}
		<-b.release
	}
	return nil
}

func (b *blockedLog) wait(t *testing.T) {
	t.Helper()
	select {
	case <-b.reached:
	case <-time.After(xdstest.Patience):
		t.Fatalf("%q was not logged", b.message)
	}
}

// TestFlushComesBack: K19: a stream that is locked while it has news is flushed once it is
// unlocked, by one goroutine however much news there was, and with the newest state.
func TestFlushComesBack(t *testing.T) {
	c := newCrowd(t, 1)
	st := c.srv.snapshot()[0]
	st.mu.Lock()
	for range 100 {
		c.publish()
		st.Flush()
	}
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(stacks.String(), "created by xdsrelay/fanout.(*stream).Flush"); n != 1 {
		t.Errorf("%d goroutines wait to flush one stream", n)
	}
	st.mu.Unlock()
	c.expect("once it is unlocked", 1)
	xdstest.Eventually(t, "the client to be in sync", func() bool { return c.info(cds).State == Synced })
	if i := c.info(cds); i.Nonce != "2" {
		t.Errorf("%s responses were sent for changes that came at once", i.Nonce)
	}
}
