package grpcgo

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/transport"
)

// gzipName is the name of the encoding in gRPC headers.
const gzipName = "gzip"

// encodedStream is the part of grpc-go's transport streams about compression; like that of
// statusWriter, it is not in their documented interface.
type encodedStream interface {
	ClientAdvertisedCompressors() []string
	SetSendCompress(string) error
}

// wire writes whole messages to the transport below grpc-go's streams, with the flag that says
// whether they are compressed.
//
// SendMsg cannot do that: it compresses each message of a stream with the encoding of the stream,
// by the compressor registered for its name. A compressor of ours for the name gzip could detect
// compressed messages by the address of the first slice from the codec, and pass them on. But it
// would apply to the whole program, including upstream connections and all other services; it could
// not leave small messages uncompressed; and its output is copied into a buffer, of 1 MiB from 32
// KiB up, which a client that does not read would pin. A PreparedMsg is made only by Encode, which
// copies as well.
//
// The transport's Write takes what SendMsg would pass to it. One of its types has no name outside
// grpc-go, hence the reflection, which costs 0.3 µs. It does not notify a stats handler; the relay
// has none.
type wire struct {
	// Fixed after construction.
	stream  reflect.Type  // of transport streams
	write   reflect.Value // func(stream, header []byte, message mem.BufferSlice, options) error
	options reflect.Value // the zero value of the options
}

// newWire makes the wire for a type of transport streams. It fails unless they have the Write
// method of grpc-go.
func newWire(stream reflect.Type) (*wire, error) {
	m, ok := stream.MethodByName("Write")
	if !ok {
		return nil, fmt.Errorf("transport streams of type %v have no method Write, expected grpc-go's", stream)
	}
	t := m.Func.Type()
	if t.NumIn() != 4 || t.In(1) != reflect.TypeFor[[]byte]() || t.In(2) != reflect.TypeFor[mem.BufferSlice]() ||
		t.In(3).Kind() != reflect.Pointer || t.NumOut() != 1 || t.Out(0) != reflect.TypeFor[error]() {
		return nil, fmt.Errorf("the method Write of transport streams is a %v, expected that of grpc-go", t)
	}
	return &wire{stream: stream, write: m.Func, options: reflect.New(t.In(3).Elem())}, nil
}

// Compress implements [transport.Call].
func (c *call) Compress() bool {
	es, ok := grpc.ServerTransportStreamFromContext(c.grpc.Context()).(encodedStream)
	if !ok || !slices.Contains(es.ClientAdvertisedCompressors(), gzipName) || c.adapter.wireOf(reflect.TypeOf(es)) == nil {
		return false
	}
	c.gzip = es.SetSendCompress(gzipName) == nil // otherwise the stream has ended
	return c.gzip
}

// wireOf returns the wire for a type of transport streams. If there is none it logs that and
// returns nil.
func (a *Adapter) wireOf(stream reflect.Type) *wire {
	w := a.wire.Load()
	if w == nil || w.stream != stream {
		var err error
		if w, err = newWire(stream); err != nil {
			a.noWire.Do(func() { a.cfg.Logger.Error("responses are not compressed", "reason", err.Error()) })
			return nil
		}
		a.wire.Store(w)
	}
	return w
}

// send writes m to a stream of the wire's type. It blocks like SendMsg. An error
// that is no status means that the connection was closed.
func (w *wire) send(to any, m *transport.Message) error {
	n := len(m.Body) + len(m.Tail)
	if n > math.MaxInt32 {
		return status.Errorf(codes.ResourceExhausted, "a response has %d bytes, expected at most %d", n, math.MaxInt32)
	}
	header := make([]byte, transport.HeaderSize)
	if m.Compressed {
		header[0] = 1
	}
	binary.BigEndian.PutUint32(header[1:], uint32(n))
	// As in the codec, the GC frees the bytes.
	message := mem.BufferSlice{mem.SliceBuffer(m.Body), mem.SliceBuffer(m.Tail)}
	out := w.write.Call([]reflect.Value{reflect.ValueOf(to), reflect.ValueOf(header), reflect.ValueOf(message), w.options})
	err, _ := reflect.TypeAssert[error](out[0])
	return err
}
