package fanout

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// gzipName is the encoding as gRPC's headers have it.
const gzipName = "gzip"

// encodedStream is what grpc-go's transport streams know of compression; as with
// statusWriter, their documented interface lacks it.
type encodedStream interface {
	ClientAdvertisedCompressors() []string
	SetSendCompress(string) error
}

// wire writes whole messages to the transport below grpc-go's streams, with the
// flag that says whether they are compressed.
//
// SendMsg cannot do so: it compresses each message of a stream with the encoding
// that the stream has, by the compressor registered under its name. One of ours
// under the name gzip could tell what is compressed already by the address of a
// first slice of the codec's, and pass it on. But it would be there for the whole
// program, its upstream connections and all other services included; it could
// not leave a small message as it is; and what a compressor passes on is copied,
// into a buffer of 1 MiB from 32 KiB up, which a client that does not read would
// hold. A PreparedMsg is made only by Encode, with copies as well.
//
// The transport's Write takes what SendMsg would give it. One of its types has no
// name outside of grpc-go, hence the reflection, which costs 0.3 µs. It does not
// tell a stats handler; the relay has none.
type wire struct {
	// Fixed after construction.
	stream  reflect.Type  // of the transport
	write   reflect.Value // func(stream, header []byte, message mem.BufferSlice, options) error
	options reflect.Value // the zero options
}

// newWire makes the wire for a type of transport streams. It fails where they
// have no such method as grpc-go's.
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

// wireFor makes the stream of a client send gzip, and returns what its messages
// are to be written with. It is nil where the client does not take gzip, or is not
// to get it. It has to be called before anything is sent.
func (s *stream) wireFor(node *corev3.Node) *wire {
	es, ok := s.status.(encodedStream)
	if s.srv.cfg.Compression.From < 1 || !ok || !slices.Contains(es.ClientAdvertisedCompressors(), gzipName) || s.misclaims(node) {
		return nil
	}
	w := s.srv.wireOf(reflect.TypeOf(s.status))
	if w == nil {
		return nil
	}
	if es.SetSendCompress(gzipName) != nil {
		return nil // the stream has ended
	}
	return w
}

// misclaims reports whether a client cannot inflate, whatever it says. Envoy's own
// gRPC client cannot, but its configuration may add the header that says so, which
// most control planes ignore. Its other one is a gRPC library, and names that.
func (s *stream) misclaims(node *corev3.Node) bool {
	library := func(agent string) bool { return strings.Contains(agent, "grpc-") }
	return node.GetUserAgentName() == "envoy" && !slices.ContainsFunc(metadata.ValueFromIncomingContext(s.grpc.Context(), "user-agent"), library)
}

// wireOf returns the wire for a type of transport streams; nil, with a line in the
// log, if there is none.
func (s *Server) wireOf(stream reflect.Type) *wire {
	w := s.wire.Load()
	if w == nil || w.stream != stream {
		var err error
		if w, err = newWire(stream); err != nil {
			s.noWire.Do(func() { s.cfg.Logger.Error("responses are not compressed", "reason", err.Error()) })
			return nil
		}
		s.wire.Store(w)
	}
	return w
}

// send writes f to a stream of the wire's type. It blocks and fails as SendMsg
// does.
func (w *wire) send(to statusWriter, f *frame) error {
	n := len(f.body) + len(f.tail)
	if n > math.MaxInt32 {
		return status.Errorf(codes.ResourceExhausted, "a response has %d bytes, expected at most %d", n, math.MaxInt32)
	}
	header := make([]byte, frameHeader)
	if f.compressed {
		header[0] = 1
	}
	binary.BigEndian.PutUint32(header[1:], uint32(n))
	// As in the codec, the bytes are left to the GC.
	message := mem.BufferSlice{mem.SliceBuffer(f.body), mem.SliceBuffer(f.tail)}
	out := w.write.Call([]reflect.Value{reflect.ValueOf(to), reflect.ValueOf(header), reflect.ValueOf(message), w.options})
	err, failed := reflect.TypeAssert[error](out[0])
	if !failed {
		return nil
	}
	if _, ok := status.FromError(err); !ok {
		err = status.Error(codes.Unavailable, err.Error()) // the connection is gone
	}
	return err
}

// send sends f, which may block.
func (s *stream) send(f *frame) error {
	if s.wire != nil {
		return s.wire.send(s.status, f)
	}
	return s.grpc.SendMsg(f)
}
