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

// Reasons to end a stream. All are gRPC statuses that say why.
var (
	errDraining     = status.Error(codes.Unavailable, "this node is draining: connect to another")
	errSendDeadline = status.Error(codes.DeadlineExceeded, "the client did not read a response within the send timeout")
	errNoRequest    = status.Error(codes.DeadlineExceeded, "no request came within the first-request timeout")
	errNoOrigin     = status.Error(codes.Unavailable, "the origin of the configuration cannot be reached, and nothing is known yet of what was asked for")
	errTooFarBehind = status.Error(codes.Unavailable, "the client is too far behind to be told what was removed: reconnect")
)

// statusWriter ends a stream from outside its handler: it sends the status and
// cancels the stream's context, so that a receive or a send that blocks
// returns. grpc-go's streams have this method, although its documented
// interface does not. Cancelling a context of ours instead would do, but then
// grpc-go itself tells the client CANCELLED, which is neither true nor what
// B42 asks for; and a receiver beside the handler would be one goroutine more
// for every idle stream.
type statusWriter interface {
	WriteStatus(*status.Status) error
}

// transportStream is what grpc-go's transport streams have that its documented interface
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

// caller is who opened a stream of any kind, and how the stream is ended.
type caller struct {
	status      transportStream   // fixed
	conn        *conn.Conn        // fixed; nil where it is not known
	peer        string            // fixed
	nodeID      string            // set by the handler with the first request
	reservation limit.Reservation // set by Server.admit

	admission

	reason atomic.Pointer[error] // the first to end the stream
}

// attach finds out who calls with a stream of the given context. peer is nil
// where the transport does not say.
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

// enters notes on the connection that the stream was admitted; leaves notes its end.
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

// end ends the stream: the client is told reason, nil means OK, and whatever
// blocks on the stream returns. Only the first reason counts. It never blocks.
func (c *caller) end(reason error) {
	if !c.reason.CompareAndSwap(nil, &reason) {
		return
	}
	st := status.New(codes.OK, "")
	if reason != nil {
		st = status.Convert(reason)
	}
	// An error means that the transport is gone, and the stream with it.
	_ = c.status.WriteStatus(st)
}

// reasonOr returns what the stream was ended with, or err if it was not.
func (c *caller) reasonOr(err error) error {
	if r := c.reason.Load(); r != nil {
		return *r
	}
	return err
}
