// Package grpcgo carries the calls of package transport over grpc-go. It is the only package that
// knows what grpc-go does beyond its documented interface: that its transport streams can be ended
// from outside their handlers, read piece by piece, and written to below its compression, and how
// much they accept before a send blocks.
//
// Each call has the goroutine of grpc-go's handler, which only receives. Sends are done by the
// caller of Send while they cannot block, and otherwise by a goroutine that lives until the message
// is sent.
//
// # Files
//
//   - adapter.go: the options of a server, and the handlers of its methods
//   - call.go: one call: reads requests, sends, ends
//   - request.go: reads a request piece by piece
//   - codec.go, wire.go: write messages without a copy, compressed or not
//   - encodings.go: refuses compressed requests
package grpcgo

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/transport"
)

// Config configures an Adapter. All fields are required.
type Config struct {
	// SendTimeout bounds how long a message waits until the client reads.
	SendTimeout time.Duration
	// Unsent is called when that time is over. It returns the reason for the client.
	Unsent func() error
	// Refused is called for a stream that is refused before there is a call. peer is empty if it is
	// unknown.
	Refused func(peer string, err error)
	Logger  *slog.Logger
}

// Adapter makes the calls of a gRPC server. All methods are safe for concurrent use.
type Adapter struct {
	cfg    Config               // fixed
	wire   atomic.Pointer[wire] // see wireOf
	noWire sync.Once            // guards a log line
}

// New makes an Adapter.
func New(cfg Config) *Adapter { return &Adapter{cfg: cfg} }

// ServerOptions returns the options that a gRPC server with handlers of a needs.
func (a *Adapter) ServerOptions() []grpc.ServerOption {
	return append(a.asTheyAre(), grpc.ForceServerCodecV2(newCodec()))
}

// Stream describes a method that streams in both directions. Each of its streams is a call for open,
// with requests of at most the given size, in bytes.
func (a *Adapter) Stream(name string, most int, open transport.Open) grpc.StreamDesc {
	return grpc.StreamDesc{
		StreamName: name, ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, gs grpc.ServerStream) error { return a.serve(gs, most, open) },
	}
}

// messageReader is the part of grpc-go's transport streams that reads messages. RecvMsg would
// collect the whole message before the relay could check its beginning, and then copy it.
type messageReader interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
}

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
		return nil, status.Error(codes.Internal, "this gRPC server's streams cannot be ended from outside their handlers, or cannot be read piece by piece")
	}
	return t, nil
}

// serve serves a stream until the client or the server ends it.
func (a *Adapter) serve(gs grpc.ServerStream, most int, open transport.Open) error {
	from, err := transportStreamOf(gs.Context())
	if err != nil {
		return err
	}
	c := &call{grpc: gs, adapter: a}
	if c.client, err = open(c); err != nil {
		return c.refused(err)
	}
	pause, err := c.receive(from, most)
	c.sleep(pause)
	c.End(err) // before waiting for a send that may block
	c.senders.Wait()
	c.client.Closed()
	return err
}

// refused returns the status of a refused call.
func (c *call) refused(err error) error {
	away, ok := errors.AsType[*transport.Away](err)
	if !ok {
		return err
	}
	done := make(chan struct{})
	if on := c.connection(); on != nil && on.GoAway(status.Convert(away.Reason).Message(), true, func() { close(done) }) {
		select {
		case <-done: // GOAWAY is sent before the stream ends
		case <-c.Done():
		}
	}
	return away.Reason
}
