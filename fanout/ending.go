package fanout

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/conn"
	"xdsrelay/fanout/limit"
	"xdsrelay/fanout/transport"
)

// Reasons to end a stream. Each is a gRPC status with a message.
var (
	errDraining     = status.Error(codes.Unavailable, "this node is draining: reconnect to another node")
	errSendDeadline = status.Error(codes.DeadlineExceeded, "the client did not read a response within downstream.send_timeout")
	errNoRequest    = status.Error(codes.DeadlineExceeded, "no request arrived within the first-request timeout")
	errNoOrigin     = status.Error(codes.Unavailable, "the control plane is unreachable, and this node has no state of the requested resources yet")
	errTooFarBehind = status.Error(codes.Unavailable, "the client is too far behind for an incremental update: reconnect")
)

// refusalPause is how long a stream that had an answer stays open after its client was refused. xDS
// clients pause before they reopen a stream only if the last one had no answer (C13 for ours;
// grpc-go, C-core and Envoy do the same), so a client that repeats its request would otherwise be
// served and refused thousands of times per second.
const refusalPause = time.Second

// caller is the client of a stream of any kind.
type caller struct {
	call        transport.Call    // fixed
	conn        *conn.Conn        // fixed; nil if unknown
	peer        string            // fixed; empty if unknown
	nodeID      string            // set with the first request
	reservation limit.Reservation // set by Server.admit

	admission
}

// callerOf returns the client of a call.
func callerOf(call transport.Call) caller {
	c := caller{call: call}
	if a := call.Addr(); a != nil {
		c.peer, c.conn = a.String(), conn.Of(a)
	}
	return c
}

// enters counts the admitted stream on its connection; leaves records its end.
func (c *caller) enters() {
	if c.conn != nil {
		c.conn.Enter()
	}
}

func (c *caller) leaves() {
	if c.conn != nil {
		c.conn.Leave()
	}
}

// stop makes the stream send nothing any more, since it ends with err. It returns err and the pause
// until the end: other nodes of the tier pause by themselves.
func (s *stream) stop(err error) (pause time.Duration, reason error) {
	why, text := endingOf(err)
	s.mu.Lock()
	answered := s.nonces > 0 && s.tier == nil
	s.ended = true
	s.lostLocked(why, time.Now())
	s.disconnectedLocked(why, text)
	s.unlock()
	if err != nil && answered {
		pause = refusalPause
	}
	return pause, err
}

// stop is stream.stop for a stream of load reports.
func (s *loadStream) stop(err error) (pause time.Duration, reason error) {
	s.mu.Lock()
	answered := s.sentTerms != nil && s.tier == nil
	s.ended = true
	s.mu.Unlock()
	if err != nil && answered {
		pause = refusalPause
	}
	return pause, err
}
