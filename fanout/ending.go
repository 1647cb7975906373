package fanout

import (
	"context"
	"errors"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/conn"
	"xdsrelay/fanout/limit"
)

// Reasons to end a stream. Each is a gRPC status with a message.
var (
	errDraining     = status.Error(codes.Unavailable, "this node is draining: connect to another")
	errSendDeadline = status.Error(codes.DeadlineExceeded, "the client did not read a response within the send timeout")
	errNoRequest    = status.Error(codes.DeadlineExceeded, "no request came within the first-request timeout")
	errNoOrigin     = status.Error(codes.Unavailable, "the origin of the configuration cannot be reached, and nothing is known yet of what was asked for")
	errTooFarBehind = status.Error(codes.Unavailable, "the client is too far behind to be told what was removed: reconnect")
)

// statusWriter ends a stream from outside its handler: it sends the status and cancels the stream's
// context, so that a blocked receive or send returns. grpc-go's streams have this method, although
// their documented interface does not. If we canceled a context of our own instead, grpc-go would
// send CANCELLED, which is not true and not what B42 asks for; and a receiver in addition to the
// handler would be one goroutine more for every idle stream.
type statusWriter interface {
	WriteStatus(*status.Status) error
}

// transportStream has the methods of grpc-go's transport streams that their documented interface
// lacks.
type transportStream interface {
	statusWriter
	messageReader
}

func transportStreamOf(ctx context.Context) (transportStream, error) {
	t, ok := grpc.ServerTransportStreamFromContext(ctx).(transportStream)
	if !ok {
		return nil, errors.New("this gRPC server's streams cannot be ended from outside their handlers, or cannot be read piece by piece")
	}
	return t, nil
}

// caller is the client of a stream of any kind, and ends the stream.
type caller struct {
	status      transportStream   // fixed
	conn        *conn.Conn        // fixed; nil if unknown
	peer        string            // fixed
	nodeID      string            // set by the handler with the first request
	reservation limit.Reservation // set by Server.admit

	admission

	reason atomic.Pointer[error] // the first reason for which the stream was ended
}

// attach sets the client from the context of its stream. p is nil if the transport does not know
// the peer.
func (c *caller) attach(ctx context.Context) (p *peer.Peer, err error) {
	if c.status, err = transportStreamOf(ctx); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	p, _ = peer.FromContext(ctx)
	if p != nil && p.Addr != nil {
		c.peer = p.Addr.String()
		c.conn = conn.Of(p.Addr)
	}
	return p, nil
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

// end ends the stream: the client gets reason, where nil means OK, and blocked calls on the stream
// return. Only the first reason counts. It never blocks.
func (c *caller) end(reason error) {
	if !c.reason.CompareAndSwap(nil, &reason) {
		return
	}
	st := status.New(codes.OK, "")
	if reason != nil {
		st = status.Convert(reason)
	}
	// An error means that the connection was closed, and the stream with it.
	_ = c.status.WriteStatus(st)
}

// reasonOr returns the reason for which the stream was ended, or err if it was not.
func (c *caller) reasonOr(err error) error {
	if r := c.reason.Load(); r != nil {
		return *r
	}
	return err
}
