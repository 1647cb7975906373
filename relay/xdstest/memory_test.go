package xdstest

import (
	"context"
	"errors"
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
