package xdstest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
)

// TestMemory: parts on a network without sockets meet, part and meet again at the
// same address, and nothing of that takes any time.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := NewMemory()
		o, other := m.NewStateOrigin(t, nil), m.NewOrigin(t)
		if o.Addr() == other.Addr() {
			t.Fatalf("two origins at %s", o.Addr())
		}
		o.Set("", Cluster("a", time.Second))
		c := m.Client(t, o.Addr())
		for range 2 {
			s := c.Open(Variant{})
			s.Subscribe(ClusterType)
			s.Ack(s.Recv(t))
			o.Stop()
			if end := s.ExpectClosed(t); end.Code() != codes.Unavailable {
				t.Errorf("a stopped origin ends streams with %v", end)
			}
			if _, err := m.Dial(context.Background(), o.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("connecting with a stopped origin: %v", err)
			}
			if err := o.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > time.Second { // pauses before the client connects again
			t.Errorf("took %v", took)
		}
	})
}

// TestMemoryAddresses: each listener has an address of its own until it is closed.
func TestMemoryAddresses(t *testing.T) {
	m := NewMemory()
	first, err := m.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := first.Addr().String()
	second, err := m.Listen("127.0.0.1:0")
	if err != nil || second.Addr().String() == at {
		t.Errorf("after %s: %v, %v", at, second, err)
	}
	if _, err := m.Listen(at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listening twice at %s: %v", at, err)
	}
	for range 2 { // closing again must not close who came after
		_ = first.Close()
		if second, err = m.Listen(at); err != nil {
			t.Fatal(err)
		}
		_ = first.Close()
		if _, err := m.Listen(at); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("listening twice at %s: %v", at, err)
		}
		first = second
	}
	if _, err := m.Listen("nowhere"); err == nil {
		t.Error("listening without a port")
	}
}

// TestMemoryDeadlines: a deadline in the past ends a read at once, and once it is taken
// back nothing of it is left, even if data came at that very moment: as with a socket,
// and as net/http wants it between two requests.
func TestMemoryDeadlines(t *testing.T) {
	near, far := NewMemory().connect(nil, nil, &net.TCPAddr{}, &net.TCPAddr{})
	read, wrote := make(chan error), make(chan error)
	receive := func() {
		_, err := near.Read(make([]byte, 1))
		read <- err
	}
	send := func() {
		_, err := far.Write([]byte{1})
		wrote <- err
	}
	const rounds = 20_000
	for range rounds {
		go receive()
		go send()
		_ = near.SetReadDeadline(time.Unix(1, 0))
		ended := <-read
		_ = near.SetReadDeadline(time.Time{})
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
		if ended != nil {
			if !errors.Is(ended, os.ErrDeadlineExceeded) {
				t.Fatal(ended)
			}
			if _, err := near.Read(make([]byte, 1)); err != nil {
				t.Fatalf("what came after the deadline: %v", err)
			}
		}
		go receive() // there is nothing yet
		runtime.Gosched()
		go send()
		if err := errors.Join(<-wrote, <-read); err != nil {
			t.Fatalf("after the deadline was taken back: %v", err)
		}
	}
}

// TestMemoryConn: deadlines that come, bounds, and ends.
func TestMemoryConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := NewMemory().connect(nil, nil, &net.TCPAddr{}, &net.TCPAddr{})
		began := time.Now()
		_ = near.SetDeadline(began.Add(time.Second))
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("nothing was read within %v: %v", time.Since(began), err)
		}
		_ = near.SetDeadline(time.Now().Add(time.Second))
		n, err := near.Write(make([]byte, 2*memoryBuffer))
		if n != memoryBuffer || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 2*time.Second {
			t.Errorf("%d bytes were written within %v: %v", n, time.Since(began), err)
		}
		_ = near.Close()
		if all, err := io.ReadAll(far); len(all) != memoryBuffer || err != nil {
			t.Errorf("%d bytes, and then %v", len(all), err)
		}
		if _, err := far.Write([]byte{1}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("written to who has gone: %v", err)
		}
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("read after closing: %v", err)
		}
	})
}
