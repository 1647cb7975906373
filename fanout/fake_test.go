package fanout

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// fakeStream is a server stream without a transport, for what cannot be seen
// through one: virtual time, allocations, failing sends.
type fakeStream struct {
	grpc.ServerStream
	ctx      context.Context
	requests chan []byte
	received func() // called before a request is taken; may be nil
	send     func(*frame) error

	frames atomic.Int64
}

// fake makes a stream that takes every frame.
func fake(t xdstest.TB) *fakeStream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ctx = grpc.NewContextWithServerTransportStream(ctx, &fakeTransport{end: cancel})
	t.Cleanup(cancel)
	return &fakeStream{ctx: ctx, requests: make(chan []byte, 16)}
}

// fakeTransport is the transport's side of a fakeStream.
type fakeTransport struct {
	grpc.ServerTransportStream
	end func()
}

func (f *fakeTransport) WriteStatus(*status.Status) error {
	f.end()
	return nil
}

func (f *fakeStream) Context() context.Context { return f.ctx }

func (f *fakeStream) RecvMsg(m any) error {
	if f.received != nil {
		f.received()
	}
	select {
	case b := <-f.requests:
		return newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, m)
	default:
	}
	select {
	case b := <-f.requests:
		return newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, m)
	case <-f.ctx.Done():
		return f.ctx.Err()
	}
}

func (f *fakeStream) SendMsg(m any) error {
	f.frames.Add(1)
	if f.send != nil {
		return f.send(m.(*frame))
	}
	return nil
}

// say queues a request.
func (f *fakeStream) say(t xdstest.TB, m proto.Message) {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	f.requests <- b
}
