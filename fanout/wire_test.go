package fanout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// zipTransport is the transport side of a stream to a client that accepts gzip.
type zipTransport struct {
	fakeTransport
	to  *sink
	err error // of each write
}

func (*zipTransport) ClientAdvertisedCompressors() []string { return []string{"identity", "gzip"} }
func (*zipTransport) SetSendCompress(string) error          { return nil }

// Write has the signature of grpc-go's.
func (z *zipTransport) Write(header []byte, m mem.BufferSlice, _ *struct{ Last bool }) error {
	if n := binary.BigEndian.Uint32(header[1:]); len(header) != frameHeader || int(n) != m.Len() {
		return fmt.Errorf("the header % x is before %d bytes", header, m.Len())
	}
	z.to.frames++
	z.to.room = frame{body: m[0].ReadOnlyData(), tail: m[1].ReadOnlyData(), compressed: header[0] == 1}
	z.to.last = &z.to.room
	return z.err
}

// takeGzip makes all clients of a fleet accept gzip from now on.
func (f *fleet) takeGzip() {
	for i, s := range f.streams {
		s.status = &zipTransport{fakeTransport: fakeTransport{end: func() {}}, to: f.sinks[i]}
		if s.wire = s.wireFor(nil); s.wire == nil {
			f.t.Fatalf("client %d does not get gzip", i)
		}
	}
}

// TestWhoTakesGzip: Envoy's own gRPC client gets nothing compressed, even if it is configured to
// say that it accepts gzip; a gRPC library in an Envoy does.
func TestWhoTakesGzip(t *testing.T) {
	virtual(t, func(t *testing.T) {
		srv := newSilentWorld(t, compressing(1, 0)).srv
		for _, c := range []struct {
			node, agent string
			want        bool
		}{
			{"gRPC Go", "grpc-go/1.85.0", true},
			{"gRPC Go", "", true},
			{"", "tonic/0.14.1", true},
			{"envoy", "", false},
			{"envoy", "some-envoy/1.36", false},
			{"envoy", "grpc-c++/1.66.0 grpc-c/43.0.0 (linux; chttp2)", true},
			{"envoy", "agent grpc-go/1.85.0", true},
		} {
			ctx := t.Context()
			if c.agent != "" {
				ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("user-agent", c.agent))
			}
			s := &stream{srv: srv, grpc: &fakeStream{ctx: ctx}, caller: caller{status: &zipTransport{}}}
			node := &corev3.Node{UserAgentName: c.node}
			if got := s.wireFor(node) != nil; got != c.want {
				t.Errorf("%q with the user agent %q gets gzip: %t", c.node, c.agent, got)
			}
			s.status = &noWrite{}
			if s.wireFor(node) != nil {
				t.Errorf("%q gets gzip, though it did not say that it takes it", c.node)
			}
		}
	})
}

// TestWireFails: an error of the transport for a message ends the stream; a lost connection gets
// the right status.
func TestWireFails(t *testing.T) {
	for _, c := range []struct {
		err  error
		want codes.Code
	}{{errors.New("connection error"), codes.Unavailable}, {status.Error(codes.Canceled, "gone"), codes.Canceled}} {
		f := newFleet(t, 1, 1, true, compressing(1, 0))
		f.takeGzip()
		s := f.streams[0]
		s.status.(*zipTransport).err = c.err
		f.touch(1)
		f.flush()
		if got := status.Code(s.reasonOr(nil)); got != c.want || !s.ended {
			t.Errorf("after %q the stream has ended: %t, with %v, expected %v", c.err, s.ended, got, c.want)
		}
	}
}

type (
	noWrite    struct{ fakeTransport }
	otherWrite struct{ fakeTransport }
)

func (*otherWrite) Write([]byte) (int, error) { return 0, nil }

// TestUnknownTransport: a stream that is not of grpc-go as we know it is not written to.
func TestUnknownTransport(t *testing.T) {
	for _, to := range []any{&noWrite{}, &otherWrite{}} {
		if _, err := newWire(reflect.TypeOf(to)); err == nil {
			t.Errorf("a %T can be written to", to)
		}
	}
}
