package fanout

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// large returns a cluster of at least the given size in bytes.
func large(name string, size int) proto.Message {
	c := xdstest.Cluster(name, time.Second)
	c.AltStatName = strings.Repeat("x", size)
	return c
}

// barrier lets an automatic client read only while it is open.
type barrier struct {
	opened chan struct{}
}

func newGate() *barrier { return &barrier{opened: make(chan struct{})} }

func (g *barrier) open() { close(g.opened) }

func (g *barrier) pass(ctx context.Context) {
	select {
	case <-g.opened:
	case <-ctx.Done():
	}
}

// K19: a client that does not read delays no other client, and costs only what is in flight; when
// it reads again it gets the newest state in one frame.
func TestSlowClient(t *testing.T) {
	for _, v := range []xdstest.Variant{xdstest.SotW, xdstest.Delta} {
		t.Run(v.String(), func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				w := newWorld(t)
				g := newGate()
				start := func(id string, cfg xdstest.AutoConfig) *xdstest.Auto {
					cfg.Addr, cfg.DialOptions, cfg.Variant, cfg.Node = w.addr, []grpc.DialOption{w.net.Option()}, v, xdstest.Node(id, "k")
					a := xdstest.StartAuto(t, cfg)
					a.Subscribe(cds)
					a.Subscribe(rds, "r")
					return a
				}
				slow := start("slow", xdstest.AutoConfig{BeforeRead: g.pass})
				good := []*xdstest.Auto{start("1", xdstest.AutoConfig{}), start("2", xdstest.AutoConfig{}), start("3", xdstest.AutoConfig{})}
				w.asked(cds, "*")
				w.asked(rds, "r")
				w.wildcards(cds, 4)
				const updates = 300
				for i := range updates {
					w.serve("", cds, large("a", 100<<10+i), cluster(fmt.Sprint("b", i), 1))
					w.change(rds, nil, route("r", fmt.Sprint(i)))
					if i%100 == 99 { // the others are up to date while it does not read
						for _, a := range good {
							a.WaitHeld(t, cds, "a", fmt.Sprint("b", i))
						}
					}
				}
				last := bodyOf(t, route("r", fmt.Sprint(updates-1)))
				for _, a := range good {
					a.WaitFor(t, "the last route", func() bool { return string(a.Held(rds)["r"].Body) == last })
				}
				for _, s := range w.srv.Streams() {
					if s.NodeID == "slow" && s.Unacked > 150<<10 {
						t.Errorf("the slow client is owed %d bytes", s.Unacked)
					}
				}
				g.open()
				slow.WaitHeld(t, cds, "a", fmt.Sprint("b", updates-1))
				slow.WaitFor(t, "the last route", func() bool { return string(slow.Held(rds)["r"].Body) == last })
				if n := slow.Stats().Frames; n > 5 { // in flight, then the newest; removals separately
					t.Errorf("the slow client got %d frames", n)
				}
				for _, a := range append(good, slow) {
					a.CheckViolations(t)
				}
			})
		})
	}
}

func bodyOf(t xdstest.TB, m proto.Message) string {
	t.Helper()
	return string(xdstest.Any(m).GetValue())
}

// K19: a client that never reads ends at the send deadline, wherever the bytes are blocked, and all
// its state is freed.
func TestSendDeadline(t *testing.T) {
	for _, where := range []string{"client", "network"} {
		for zip, c := range map[string]Compression{"": {}, ", compressed": {From: 1}} {
			t.Run(where+zip, func(t *testing.T) {
				virtual(t, func(t *testing.T) { testSendDeadline(t, where, c) })
			})
		}
	}
}

func testSendDeadline(t *testing.T, where string, zip Compression) {
	w := newWorld(t, func(c *Config) { c.SendTimeout, c.Compression = 3*short, zip })
	net := w.net.NewNetwork(t, w.addr)
	// Otherwise gRPC would let a client that has read a lot, within no time of the virtual clock,
	// be sent up to 16 MiB before it reads again.
	s := w.net.Client(t, net.Addr(), grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10)).Open(xdstest.Delta)
	types := []string{cds, eds, lds}
	for _, url := range types {
		s.Subscribe(url, "a")
		w.asked(url, "a")
	}
	if where == "client" {
		s.StopReading()
	} else {
		net.Stall(xdstest.ToClient)
	}
	for _, url := range types { // the client may still accept the first
		w.named(url, "a", noisy("a", 2<<20))
	}
	xdstest.Eventually(t, "the stream to be ended", func() bool { return len(w.srv.Streams()) == 0 })
	fresh := w.open(true) // its state is freed, and others are served
	fresh.Subscribe(cds, "a")
	has(t, fresh.Recv(t), "a")
	s.StartReading()
	net.Stall(0)
	refusedWith(t, s, codes.DeadlineExceeded, "downstream.send_timeout")
}

// B12, K19: frames that a client never acknowledges are sent by a goroutine once they could block,
// and a client that reads gets all of them.
func TestUnacknowledgedBytes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.AckTimeout = short / 10 })
		s := w.open(true)
		s.Subscribe(cds)
		w.asked(cds, "*")
		var f *xdstest.Frame
		for v := range 20 {
			w.serve("", cds, large("a", 100<<10+v))
			f = has(t, s.Recv(t), "a")
		}
		s.Ack(f) // the newest answers for all
		w.settled(cds, Synced)
		if s := w.srv.Streams()[0]; s.Unacked != 0 {
			t.Fatalf("%d bytes are counted after the ACK", s.Unacked)
		}
	})
}
