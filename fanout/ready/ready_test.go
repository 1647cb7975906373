package ready

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counting is a pool that counts the buffers in use.
type counting struct{ taken, out atomic.Int64 }

func (c *counting) Get(size int) *[]byte {
	c.out.Add(1)
	c.taken.Add(1)
	b := make([]byte, size)
	return &b
}

func (c *counting) Put(*[]byte) { c.out.Add(-1) }

// pair returns both ends of a network connection.
func pair(t *testing.T, network, address string) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed := make(chan net.Conn, 1)
	go func() {
		c, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Error(err)
		}
		dialed <- c
	}()
	near, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	far = <-dialed
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
	})
	return near, far
}

// TestReads: for each kind of connection, a Reader returns the bytes in order, in pieces of any
// size, then the end. All buffers return to the pool but those that the Reader returned.
func TestReads(t *testing.T) {
	for name, ends := range map[string]func() (net.Conn, net.Conn){
		"tcp":  func() (net.Conn, net.Conn) { return pair(t, "tcp", "127.0.0.1:0") },
		"unix": func() (net.Conn, net.Conn) { return pair(t, "unix", filepath.Join(t.TempDir(), "s")) },
		"pipe": net.Pipe,
	} {
		t.Run(name, func(t *testing.T) {
			near, far := ends()
			want := strings.Repeat("0123456789abcdef-", 5000)
			go func() {
				_, _ = io.WriteString(far, want)
				_ = far.Close()
			}()
			pool, r := &counting{}, NewReader(near)
			var got strings.Builder
			for size := 1; ; size = size*3%4096 + 1 {
				buf, n, err := r.ReadOnReady(size, pool)
				if n > size {
					t.Fatalf("%d bytes were read, expected at most %d", n, size)
				}
				if buf != nil {
					got.Write((*buf)[:n])
					pool.Put(buf)
				}
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if got.String() != want || pool.out.Load() != 0 {
				t.Errorf("%d bytes and %d buffers in use, expected %d and none", got.Len(), pool.out.Load(), len(want))
			}
		})
	}
}

// TestWaitsWithoutABuffer: a waiting read has no buffer, and a deadline ends it like any other
// read.
func TestWaitsWithoutABuffer(t *testing.T) {
	near, far := pair(t, "tcp", "127.0.0.1:0")
	for name, conn := range map[string]net.Conn{"socket": near, "other": tls.Server(near, &tls.Config{MinVersion: tls.VersionTLS13})} {
		pool, r := &counting{}, NewReader(conn)
		if _, is := r.(*encrypted); is == (name == "socket") && runtime.GOOS == "linux" {
			t.Fatalf("the reader of the %s is a %T", name, r)
		}
		if name == "other" {
			r = &probed{conn: near} // without the handshake
		}
		if err := near.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if buf, n, err := r.ReadOnReady(100, pool); buf != nil || n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the read gave %d bytes and %v, expected the end of the deadline", name, n, err)
		}
		if err := near.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		began, tries := time.Now(), pool.taken.Load()
		waiting := make(chan struct{})
		go func() {
			defer close(waiting)
			buf, n, err := r.ReadOnReady(100, pool)
			if err != nil || n != 1 || (*buf)[0] != 'x' {
				t.Errorf("%s: %d bytes and %v, expected one", name, n, err)
			}
		}()
		// A socket is read once to find that there is no data: that buffer returns to the pool.
		for name == "socket" && (pool.taken.Load() == tries || pool.out.Load() != 0) {
			if time.Since(began) > 10*time.Second {
				t.Fatalf("%s: %d buffers are in use while nothing arrives", name, pool.out.Load())
			}
			runtime.Gosched()
		}
		if n := pool.taken.Load(); name == "other" && n != 0 {
			t.Errorf("%s: %d buffers were taken though nothing has arrived", name, n)
		}
		if _, err := far.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		<-waiting
		if n := pool.out.Load(); n != 1 {
			t.Errorf("%s: %d buffers are in use, expected the one with the byte", name, n)
		}
	}
}
