package fanout

import (
	"context"
	"encoding/binary"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// fakeStream is a server stream without a transport, for tests of virtual time, allocations and
// failing sends.
type fakeStream struct {
	grpc.ServerStream
	ctx      context.Context
	requests chan []byte
	rest     []byte // of the request being read
	received func() // called before a request is read; may be nil
	send     func(*frame) error

	frames atomic.Int64
}

// fake makes a stream that accepts every frame.
func fake(t xdstest.TB) *fakeStream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &fakeStream{requests: make(chan []byte, 16)}
	f.ctx = grpc.NewContextWithServerTransportStream(ctx, &fakeTransport{end: cancel, stream: f})
	t.Cleanup(cancel)
	return f
}

// fakeTransport is the transport side of a fakeStream.
type fakeTransport struct {
	grpc.ServerTransportStream
	end    func()
	stream *fakeStream // nil if nothing is read
}

func (f *fakeTransport) WriteStatus(*status.Status) error {
	f.end()
	return nil
}

func (f *fakeTransport) ReadMessageHeader(header []byte) error {
	b, err := f.stream.next()
	if err == nil {
		header[0] = 0
		binary.BigEndian.PutUint32(header[1:], uint32(len(b)))
		f.stream.rest = b
	}
	return err
}

func (f *fakeTransport) Read(n int) (mem.BufferSlice, error) {
	b := f.stream.rest[:n]
	f.stream.rest = f.stream.rest[n:]
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (f *fakeStream) Context() context.Context { return f.ctx }

func (f *fakeStream) next() ([]byte, error) {
	if f.received != nil {
		f.received()
	}
	select {
	case b := <-f.requests:
		return b, nil
	default:
	}
	select {
	case b := <-f.requests:
		return b, nil
	case <-f.ctx.Done():
		return nil, f.ctx.Err()
	}
}

// arrive makes r a request that has arrived in pieces.
func arrive(r *request, pieces mem.BufferSlice) error {
	binary.BigEndian.PutUint32(r.header[1:], uint32(pieces.Len()))
	if len(pieces) == 1 {
		r.whole = pieces[0]
		return nil
	}
	r.add(pieces)
	return nil
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
