package xdstest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// echo is a server that sends back what it gets; each of its connections can be
// seen through the network only.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func say(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := c.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, want string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(Patience))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

func hearNothing(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(short))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %d bytes, %v; want silence", n, err)
	}
}

func hearReset(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(Patience))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("read: %v; want a reset", err)
	}
}

func TestNetworkPassesAndCuts(t *testing.T) {
	n := NewNetwork(t, echo(t))
	one, two := dial(t, n.Addr()), dial(t, n.Addr())
	say(t, one, "hello")
	hear(t, one, "hello")
	say(t, two, "you")
	hear(t, two, "you")
	if open, ever := n.Connections(); open != 2 || ever != 2 {
		t.Errorf("%d open, %d ever", open, ever)
	}
	Eventually(t, "8 bytes each way to be counted", func() bool { // the bytes arrive just before
		up, down := n.Carried()
		return up == 8 && down == 8
	})
	n.Cut()
	hearReset(t, one)
	hearReset(t, two)
	Eventually(t, "the links to be gone", func() bool { open, _ := n.Connections(); return open == 0 })
	say(t, dial(t, n.Addr()), "still accepting")
}

func TestNetworkHalfClose(t *testing.T) {
	c := dial(t, NewNetwork(t, echo(t)).Addr())
	say(t, c, "last words")
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if string(got) != "last words" || err != nil {
		t.Fatalf("heard %q, %v", got, err)
	}
}

func TestNetworkRefuses(t *testing.T) {
	n := NewNetwork(t, echo(t))
	before := dial(t, n.Addr())
	n.Refuse()
	n.Refuse()
	if c, err := net.Dial("tcp", n.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("dial while refusing: %v, %v", c, err)
	}
	say(t, before, "x")
	hear(t, before, "x")
	if err := n.Accept(); err != nil {
		t.Fatal(err)
	}
	after := dial(t, n.Addr())
	say(t, after, "y")
	hear(t, after, "y")
}

func TestNetworkStalls(t *testing.T) {
	for _, way := range []Direction{ToServer, ToClient, BothWays} {
		n := NewNetwork(t, echo(t))
		c := dial(t, n.Addr())
		say(t, c, "a")
		hear(t, c, "a")
		n.Stall(way)
		fresh := dial(t, n.Addr())
		say(t, c, "b")
		say(t, fresh, "c")
		hearNothing(t, c)
		hearNothing(t, fresh)
		want := int64(3) // bytes that the server gets
		if way&ToServer != 0 {
			want = 1
		}
		Eventually(t, fmt.Sprintf("%d bytes up and 1 down, stalled %d", want, way), func() bool {
			up, down := n.Carried()
			return up == want && down == 1
		})
		n.Stall(0)
		hear(t, c, "b")
		hear(t, fresh, "c")
	}
}

// TestNetworkBackPressure: a stall fills the sender's buffers and then blocks it.
func TestNetworkBackPressure(t *testing.T) {
	n := NewNetwork(t, echo(t))
	n.Stall(BothWays)
	c := dial(t, n.Addr())
	_ = c.SetWriteDeadline(time.Now().Add(10 * short))
	if _, err := c.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("64 MiB into a stalled network: %v", err)
	}
}

func TestNetworkDelaysAndThrottles(t *testing.T) {
	n := NewNetwork(t, echo(t))
	c := dial(t, n.Addr())
	n.Delay(short)
	start := time.Now()
	say(t, c, "slow")
	hear(t, c, "slow")
	if took := time.Since(start); took < 2*short {
		t.Errorf("a round trip of two delays of %v took %v", short, took)
	}
	if err := n.Heal(); err != nil {
		t.Fatal(err)
	}

	n.Bandwidth(20_000)
	start = time.Now()
	data := bytes.Repeat([]byte("x"), 4_000)
	say(t, c, string(data))
	hear(t, c, string(data))
	// The last chunk is written without a pause after it.
	if took := time.Since(start); took < 3*short {
		t.Errorf("4 kB at 20 kB/s took %v", took)
	}
}

func TestNetworkRetarget(t *testing.T) {
	n := NewNetwork(t, "127.0.0.1:1") // nobody listens there
	// The reset may come while the client still connects.
	if c, err := net.Dial("tcp", n.Addr()); err == nil {
		hearReset(t, c)
		_ = c.Close()
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("dial without a target: %v", err)
	}
	n.Retarget(echo(t))
	c := dial(t, n.Addr())
	say(t, c, "found")
	hear(t, c, "found")
	n.Close()
	hearReset(t, c)
}
