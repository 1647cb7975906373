package xdstest

import (
	"context"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Stranger is a gRPC server which nobody should talk to: it counts who does. Its methods are
// safe for concurrent use.
type Stranger struct {
	listener          net.Listener
	connections, call atomic.Int64
}

// NewStranger starts one on loopback, for the time of the test.
func NewStranger(t TB) *Stranger {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("%v", err)
	}
	s := &Stranger{listener: listener}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		s.call.Add(1)
		return status.Error(codes.Unavailable, "not a node")
	}))
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(counting{listener, &s.connections})
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return s
}

// Addr is where it listens.
func (s *Stranger) Addr() string { return s.listener.Addr().String() }

// CheckAlone fails the test if anybody connected.
func (s *Stranger) CheckAlone(t TB) {
	t.Helper()
	if n, calls := s.connections.Load(), s.call.Load(); n > 0 || calls > 0 {
		t.Errorf("%s got %d connections and %d calls, expected none", s.Addr(), n, calls)
	}
}

// counting counts connections.
type counting struct {
	net.Listener
	accepted *atomic.Int64
}

// Accept waits for the next connection.
func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return conn, err
}
