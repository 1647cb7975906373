package xdstest

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// served is what the streams that a test answers have in common, whatever a
// client sends on them.
type served[T any] struct {
	id      string            // fixed
	log     *Transcript       // fixed
	grpc    grpc.ServerStream // fixed
	inbox   *inbox[T]         // fixed; what the test has not taken yet
	closing chan struct{}     // closed by Close

	mu      sync.Mutex // guards all below
	node    *corev3.Node
	end     error // what the handler is to return, once closing is closed
	closed  bool  // Close was called
	retired bool  // the handler is about to return: nothing may be sent
}

// begin is the stream's start.
func (s *served[T]) begin(id string, log *Transcript, ss grpc.ServerStream, line func(T) string) {
	s.id, s.log, s.grpc, s.closing = id, log, ss, make(chan struct{})
	s.inbox = newInbox("origin stream "+id, log, line)
}

// serve receives until the client, the test or the server ends the stream, and
// returns what the handler has to. heard is told of each message before the test
// can take it.
func (s *served[T]) serve(receive func() (T, *corev3.Node, error), heard func(T)) (end error) {
	received := make(chan error, 1)
	go func() { received <- s.receive(receive, heard) }()
	select {
	case <-s.closing:
		s.mu.Lock()
		end = s.end
		s.mu.Unlock()
	case end = <-received:
	}
	// gRPC forbids sending once the handler has returned.
	s.mu.Lock()
	s.retired = true
	s.mu.Unlock()
	s.log.add("%s ended: %v", s.id, end)
	s.inbox.finish(end)
	return end
}

// receive goes on until the client ends its half.
func (s *served[T]) receive(receive func() (T, *corev3.Node, error), heard func(T)) error {
	for {
		m, node, err := receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.log.add("%s <- %s", s.id, s.inbox.line(m))
		s.mu.Lock()
		if s.node == nil {
			s.node = node
		}
		s.mu.Unlock()
		heard(m)
		s.inbox.put(m)
	}
}

// sendLocked sends a message. A stream that has ended is an error. s.mu must be
// held.
func (s *served[T]) sendLocked(m proto.Message, line string) error {
	if s.retired {
		return fmt.Errorf("origin stream %s has ended: cannot send %s", s.id, line)
	}
	if err := s.grpc.SendMsg(m); err != nil {
		s.log.add("%s -> could not send %s: %v", s.id, line, err)
		return err
	}
	s.log.add("%s -> %s", s.id, line)
	return nil
}

// Node is the node of the first message that had one; nil before.
func (s *served[T]) Node() *corev3.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node
}

// Quiet fails the test if a message waits to be taken or comes within d (0 means
// [QuietWindow]), or if the stream ends.
func (s *served[T]) Quiet(t TB, d time.Duration) {
	t.Helper()
	s.inbox.quiet(t, d, nil)
}

// Close ends the stream with a status; nil is a plain end.
func (s *served[T]) Close(with *status.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed, s.end = true, with.Err()
		close(s.closing)
	}
}

// WaitClosed waits until the stream has ended, from whichever side.
func (s *served[T]) WaitClosed(t TB) {
	t.Helper()
	_ = s.inbox.untilEnd(t)
}
