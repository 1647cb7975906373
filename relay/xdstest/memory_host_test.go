package xdstest

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// hosts is two machines with a connection from the first to the second.
type hosts struct {
	memory     *Memory
	near, far  *Host
	listener   net.Listener
	here, peer net.Conn
}

func newHosts(t *testing.T) *hosts {
	t.Helper()
	m := NewMemory()
	h := &hosts{memory: m, near: m.NewHost("near", "127.0.0.2"), far: m.NewHost("far", "127.0.0.3")}
	var err error
	if h.listener, err = h.far.Listen("127.0.0.3:80"); err != nil {
		t.Fatal(err)
	}
	h.here, h.peer = h.connect(t)
	t.Cleanup(func() {
		_ = h.listener.Close()
		h.near.Vanish(true)
		h.far.Vanish(true)
	})
	return h
}

func (h *hosts) connect(t *testing.T) (here, peer net.Conn) {
	t.Helper()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := h.listener.Accept()
		accepted <- c
	}()
	here, err := h.near.Dial(t.Context(), "127.0.0.3:80")
	if err != nil {
		t.Fatal(err)
	}
	return here, <-accepted
}

// arrives is how long text that is written at one end takes to the other.
func arrives(t *testing.T, from, to net.Conn, text string) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := io.WriteString(from, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(to, got); err != nil || string(got) != text {
		t.Fatalf("%q arrives for %q: %v", got, text, err)
	}
	return time.Since(began)
}

// TestWays: what a way does to connections that exist, and to new ones, each way for
// itself; and that it ends.
func TestWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t)
		h.memory.SetWay("near", "far", Way{Delay: time.Second, Jitter: time.Second})
		if d := arrives(t, h.here, h.peer, "late"); d < time.Second || d > 2*time.Second {
			t.Errorf("after %v, with a delay of 1s to 2s", d)
		}
		if d := arrives(t, h.peer, h.here, "now"); d != 0 {
			t.Errorf("after %v on a way without faults", d)
		}
		h.memory.SetWay("near", "far", Way{Stalled: true})
		time.AfterFunc(time.Minute, func() { h.memory.SetWay("near", "far", Way{}) })
		dialing := time.Now()
		if d := arrives(t, h.here, h.peer, "held"); d != time.Minute {
			t.Errorf("after %v on a way that was stalled for 1m", d)
		}

		h.memory.SetWay("far", "near", Way{Stalled: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.near.Dial(ctx, "127.0.0.3:80"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("connecting over a way that is stalled: %v after %v", err, time.Since(dialing))
		}
		_ = h.peer.Close() // which cannot be heard
		if _, err := h.here.Write([]byte("x")); err != nil {
			t.Errorf("the end came over a way that is stalled: %v", err)
		}
		time.AfterFunc(time.Second, func() { h.memory.SetWay("far", "near", Way{Refused: true}) })
		if rest, err := io.ReadAll(h.here); len(rest) > 0 || err != nil {
			t.Errorf("%q, %v after the end of the other side", rest, err)
		}
		if _, err := h.near.Dial(t.Context(), "127.0.0.3:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("connecting over a way that refuses: %v", err)
		}
		h.memory.SetWay("far", "near", Way{})
		here, peer := h.connect(t)
		arrives(t, here, peer, "again")
	})
}

// TestHostGoes: who is killed resets its connections, who loses power does so when it is
// back; neither reaches anybody, and another one takes its place.
func TestHostGoes(t *testing.T) {
	for _, reset := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := newHosts(t)
			h.far.Vanish(reset)
			if _, err := h.peer.Write([]byte("x")); err == nil {
				t.Error("a machine that has gone writes")
			}
			if _, err := h.far.Dial(t.Context(), "127.0.0.2:80"); !errors.Is(err, syscall.ENETUNREACH) {
				t.Errorf("a machine that has gone connects: %v", err)
			}
			if _, err := h.far.Listen("127.0.0.3:81"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
				t.Errorf("a machine that has gone listens: %v", err)
			}
			_ = h.here.SetReadDeadline(time.Now().Add(time.Hour))
			_, err := h.here.Read(make([]byte, 1))
			if silent := err != nil && !errors.Is(err, syscall.ECONNRESET); silent == reset {
				t.Errorf("who is left reads %v", err)
			}
			h.far.Vanish(true)
			if _, err := h.here.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("after the return: %v", err)
			}
			h.far = h.memory.NewHost("far", "127.0.0.3")
			if h.listener, err = h.far.Listen("127.0.0.3:80"); err != nil {
				t.Fatal(err)
			}
			here, peer := h.connect(t)
			arrives(t, here, peer, "again")
			h.near.Cut("nobody")
			arrives(t, here, peer, "still")
			h.near.Cut("far")
			if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("after a cut: %v", err)
			}
		})
	}
}
