package grpcgo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStream is a stream of grpc-go without a connection.
type fakeStream struct {
	grpc.ServerStream
	ctx      context.Context
	requests chan []byte
	rest     []byte // of the request being read

	zips    bool                          // the client accepts gzip
	send    func(transport.Message) error // sends a message; nil means at once
	sent    atomic.Int64                  // number of messages
	last    transport.Message             // the newest
	written *status.Status                // the first that was written; read it after the handler has returned
}

// newFakeStream makes a stream that accepts every message.
func newFakeStream(t *testing.T) *fakeStream {
	t.Helper()
	f := &fakeStream{requests: make(chan []byte, 16)}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	f.ctx = grpc.NewContextWithServerTransportStream(ctx, &fakeTransport{stream: f, cancel: cancel})
	return f
}

func (f *fakeStream) Context() context.Context { return f.ctx }

func (f *fakeStream) SendMsg(m any) error {
	message, ok := m.(*transport.Message)
	if !ok {
		return fmt.Errorf("a %T was sent", m)
	}
	return f.write(*message)
}

func (f *fakeStream) write(m transport.Message) error {
	f.sent.Add(1)
	f.last = m
	if f.send == nil {
		return nil
	}
	return f.send(m)
}

// fakeTransport is the transport side of a fakeStream, with the methods of grpc-go's.
type fakeTransport struct {
	grpc.ServerTransportStream
	stream *fakeStream
	cancel func()
}

func (f *fakeTransport) WriteStatus(s *status.Status) error {
	if f.stream.written == nil {
		f.stream.written = s
	}
	f.cancel()
	return nil
}

func (f *fakeTransport) ReadMessageHeader(header []byte) error {
	select {
	case b := <-f.stream.requests:
		header[0] = 0
		binary.BigEndian.PutUint32(header[1:], uint32(len(b)))
		f.stream.rest = b
		return nil
	case <-f.stream.ctx.Done():
		return f.stream.ctx.Err()
	}
}

func (f *fakeTransport) Read(n int) (mem.BufferSlice, error) {
	b := f.stream.rest[:n]
	f.stream.rest = f.stream.rest[n:]
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (f *fakeTransport) ClientAdvertisedCompressors() []string {
	if f.stream.zips {
		return []string{"identity", "gzip"}
	}
	return nil
}

func (*fakeTransport) SetSendCompress(string) error { return nil }

// Write has the signature of grpc-go's.
func (f *fakeTransport) Write(header []byte, m mem.BufferSlice, _ *struct{ Last bool }) error {
	if n := binary.BigEndian.Uint32(header[1:]); len(header) != transport.HeaderSize || int(n) != m.Len() {
		return fmt.Errorf("the header % x is before %d bytes", header, m.Len())
	}
	return f.stream.write(transport.Message{Body: m[0].ReadOnlyData(), Tail: m[1].ReadOnlyData(), Compressed: header[0] == 1})
}

// fakeClient is a client that records what the adapter calls.
type fakeClient struct {
	call    transport.Call
	events  chan string
	request func(b []byte) (time.Duration, error) // nil accepts every request
	reason  error                                 // that NoMoreRequests was called with
}

func (c *fakeClient) Begin(b []byte, size int) error {
	c.events <- fmt.Sprintf("begin %d of %d", len(b), size)
	return nil
}

func (c *fakeClient) Request(b []byte) (time.Duration, error) {
	c.events <- fmt.Sprintf("request of %d", len(b))
	if c.request == nil {
		return 0, nil
	}
	return c.request(b)
}

func (c *fakeClient) Writable() { c.events <- "writable" }

func (c *fakeClient) NoMoreRequests(err error) (time.Duration, error) {
	c.reason = err
	c.events <- "unread"
	return 0, err
}

func (c *fakeClient) Closed() { c.events <- "closed" }

// serve serves f until it ends, and returns the client of its call and the channel for the error of
// the handler.
func serve(t *testing.T, f *fakeStream) (c *fakeClient, ended <-chan error) {
	t.Helper()
	c = &fakeClient{events: make(chan string, 100)}
	a := newAdapter()
	opened, result := make(chan struct{}), make(chan error, 1)
	go func() {
		result <- a.serve(f, 1<<20, func(call transport.Call) (transport.Client, error) {
			c.call = call
			close(opened)
			return c, nil
		})
	}()
	<-opened
	return c, result
}

// expect checks the next events.
func (c *fakeClient) expect(t *testing.T, events ...string) {
	t.Helper()
	for _, want := range events {
		if got := <-c.events; got != want {
			t.Fatalf("the client saw %q, expected %q", got, want)
		}
	}
}

const sendTimeout = 30 * time.Second

var errUnsent = status.Error(codes.DeadlineExceeded, "does not read")

var errBroken = errors.New("connection error")

func newAdapter() *Adapter {
	return New(Config{
		SendTimeout: sendTimeout, Unsent: func() error { return errUnsent },
		Refused: func(string, error) {}, Logger: slog.New(slog.DiscardHandler),
	})
}
