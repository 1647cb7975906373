package xdstest

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/status"

	"xdsrelay/relay/xdsclient"
)

// receive moves frames from the transport to the inbox until the stream ends.
func (s *Stream) receive() {
	defer s.cancel()
	for {
		f, err := xdsclient.ReadFrame(s.grpc, s.delta)
		if err != nil {
			s.log.add("%s <- ended: %v", s.id, err)
			s.frames.finish(err)
			return
		}
		s.log.add("%s <- %s", s.id, f)
		s.frames.put(f)
		s.readMu.Lock()
		readable := s.readable
		s.readMu.Unlock()
		select {
		case <-readable:
		case <-s.grpc.Context().Done():
		}
	}
}

// Recv takes the next frame, of whatever type; the test fails if none comes
// within [Patience] or the stream ends.
func (s *Stream) Recv(t TB) *Frame {
	t.Helper()
	return s.frames.next(t, "a frame", nil)
}

// RecvType takes the next frame of one type and leaves those of other types.
func (s *Stream) RecvType(t TB, typeURL string) *Frame {
	t.Helper()
	return s.frames.next(t, "a frame of "+xdsclient.ShortType(typeURL), func(f *Frame) bool { return f.TypeURL == typeURL })
}

// ErrNothing is what [Stream.Next] returns if no frame came in time.
var ErrNothing = errors.New("nothing came")

// Next takes the next frame that match accepts and leaves the others. Unlike
// [Stream.Recv] it fails no test: it returns [ErrNothing] if none comes within d,
// and a status error if the stream ends before.
func (s *Stream) Next(d time.Duration, match func(*Frame) bool) (*Frame, error) {
	f, how, why := s.frames.take(d, match)
	switch how {
	case timedOut:
		return nil, ErrNothing
	case ended:
		return nil, &EndError{Status: endStatus(why)}
	}
	return f, nil
}

// End waits for the end of the stream, at most for d; it returns nil if it is
// still open then.
func (s *Stream) End(d time.Duration) *status.Status {
	how, why := s.frames.waitEnd(d)
	if how != ended {
		return nil
	}
	return endStatus(why)
}

// EndError says that a stream has ended, and how.
type EndError struct{ Status *status.Status }

func (e *EndError) Error() string {
	return fmt.Sprintf("the stream ended with %s %q", e.Status.Code(), e.Status.Message())
}

// Quiet is the Q of the protocol rules: it fails the test if a frame is waiting
// or comes within d (0 means [QuietWindow]), or if the stream ends.
func (s *Stream) Quiet(t TB, d time.Duration) {
	t.Helper()
	s.frames.quiet(t, d, nil)
}

// QuietType is [Stream.Quiet] for the frames of one type.
func (s *Stream) QuietType(t TB, typeURL string, d time.Duration) {
	t.Helper()
	s.frames.quiet(t, d, func(f *Frame) bool { return f.TypeURL == typeURL })
}

// ExpectClosed waits for the end of the stream and returns its status (OK for a
// plain end). Frames that were not taken are passed over.
func (s *Stream) ExpectClosed(t TB) *status.Status {
	t.Helper()
	return endStatus(s.frames.untilEnd(t))
}

// Transcript is the conversation of the whole connection so far, for a test's
// own messages.
func (s *Stream) Transcript() string { return s.log.String() }

// StopReading makes the client slow: what the server sends stays in the
// transport's buffers. At most one more frame is taken.
func (s *Stream) StopReading() {
	s.readMu.Lock()
	defer s.readMu.Unlock()
	select {
	case <-s.readable:
		s.readable = make(chan struct{})
		s.log.add("%s stopped reading", s.id)
	default:
	}
}

// StartReading ends StopReading.
func (s *Stream) StartReading() {
	s.readMu.Lock()
	defer s.readMu.Unlock()
	select {
	case <-s.readable:
	default:
		close(s.readable)
		s.log.add("%s reads again", s.id)
	}
}
