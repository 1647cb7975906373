package fanout

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // clients of these tests accept gzip
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/fanout/transport"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// compressing turns compression on.
func compressing(from, after int) func(*Config) {
	return func(c *Config) { c.Compression = Compression{From: from, After: after} }
}

// foreign is an encoding that the relay does not know.
type foreign struct{}

func (foreign) Name() string                               { return "foreign" }
func (foreign) Compress(io.Writer) (io.WriteCloser, error) { return nil, errors.ErrUnsupported }
func (foreign) Decompress(io.Reader) (io.Reader, error)    { return nil, errors.ErrUnsupported }

// wiretap records what a client receives.
type wiretap struct {
	mu sync.Mutex
	// Guarded by mu.
	encodings []string  // of the streams
	messages  []message // in order
}

// message is the size of a received message, in bytes: on the wire without gRPC's header, and
// decompressed.
type message struct{ wire, whole int }

func (m message) compressed() bool { return m.wire != m.whole }

func (*wiretap) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*wiretap) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*wiretap) HandleConn(context.Context, stats.ConnStats)                       {}
func (w *wiretap) HandleRPC(_ context.Context, s stats.RPCStats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch s := s.(type) {
	case *stats.InHeader:
		w.encodings = append(w.encodings, s.Compression)
	case *stats.InPayload:
		w.messages = append(w.messages, message{s.CompressedLength, s.Length})
	}
}

// last returns the newest message.
func (w *wiretap) last() message {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.messages[len(w.messages)-1]
}

// encoding returns that of the newest stream.
func (w *wiretap) encoding() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.encodings[len(w.encodings)-1]
}

// tapped is a client with a wiretap.
type tapped struct {
	*xdstest.Stream
	*wiretap
}

// tap opens a stream of a new client, which accepts one encoding.
func (w *world) tap(v xdstest.Variant, encoding string) tapped {
	w.t.Helper()
	h := &wiretap{}
	conn := w.dial(grpc.WithStatsHandler(h), grpc.WithDefaultCallOptions(experimental.AcceptCompressors(encoding)))
	return tapped{conn.Open(v), h}
}

// noisy returns a cluster of about the given size that compresses to about half of it.
func noisy(name string, size int) proto.Message {
	noise := make([]byte, size/2)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	c := xdstest.Cluster(name, time.Second)
	c.AltStatName = hex.EncodeToString(noise)
	return c
}

// TestCompressed: a client that accepts gzip gets large responses compressed and small ones
// uncompressed, another client gets all uncompressed, and the content is the same. Unacknowledged
// bytes count as sent.
func TestCompressed(t *testing.T) {
	each(t, cds, func(t *testing.T, v xdstest.Variant) {
		w := newWorld(t, compressing(1<<10, 0))
		zipped, plain := w.tap(v, "gzip"), w.tap(v, "foreign")
		clients := []tapped{zipped, plain}
		for _, c := range clients {
			c.Subscribe(cds)
		}
		w.asked(cds, "*")
		w.wildcards(cds, 2)
		for i, m := range []proto.Message{large("a", 10<<10), cluster("a", 1), noisy("a", 300<<10)} {
			w.serve("", cds, m)
			for _, c := range clients {
				f := has(t, c.Recv(t), "a")
				if r, _ := f.Get("a"); string(r.Body.GetValue()) != bodyOf(t, m) {
					t.Fatalf("response %d became another", i)
				}
				got := c.last()
				if want := c == zipped && i != 1; got.compressed() != want {
					t.Errorf("response %d is compressed: %t, %+v", i, got.compressed(), got)
				}
				for _, s := range w.srv.Streams() {
					if s.Gzip == (c == zipped) && s.Unacked != got.wire+transport.HeaderSize {
						t.Errorf("response %d has %d bytes, but %d are unacknowledged", i, got.wire+transport.HeaderSize, s.Unacked)
					}
				}
				c.Ack(f)
			}
			w.settledAll(cds, Synced)
		}
		if z, p := zipped.encoding(), plain.encoding(); z != "gzip" || p != "" {
			t.Errorf("the encodings are %q and %q", z, p)
		}
	})
}

// settledAll waits until the server has processed all answers for a type.
func (w *world) settledAll(typeURL string, state State) {
	w.t.Helper()
	xdstest.Eventually(w.t, "all clients to be "+string(state), func() bool {
		for _, s := range w.srv.Streams() {
			for _, i := range s.Types {
				if i.TypeURL == typeURL && i.State != state {
					return false
				}
			}
		}
		return true
	})
}

// TestNothingIsCompressed: by default, no encoding is announced to a client that accepts gzip.
func TestNothingIsCompressed(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.tap(xdstest.Delta, "gzip")
		c.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("", cds, large("a", 100<<10))
		has(t, c.Recv(t), "a")
		if c.last().compressed() || c.encoding() != "" {
			t.Errorf("%+v came in %q", c.last(), c.encoding())
		}
	})
}

// TestSecretsAreNotCompressed: the size of secrets would reveal too much about them. Responses for
// one client alone are not compressed either, which would cost more than it saves.
func TestSecretsAreNotCompressed(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, compressing(1, 0), func(c *Config) {
			c.Private = func(t *resource.Type) bool { return t.URL == eds }
		})
		c := w.tap(xdstest.Delta, "gzip")
		long := string(bytes.Repeat([]byte("x"), 10<<10))

		c.Subscribe(sds, "s")
		w.asked(sds, "s")
		applyTo(w.origin(), sds, resources(t, xdstest.Secret("s", long, long))...)
		c.Ack(has(t, c.Recv(t), "s"))
		if c.last().compressed() {
			t.Errorf("a secret of %+v", c.last())
		}
		c.Subscribe(eds, "e")
		feed := w.own(eds, 1)["e"]
		feed.Apply(cache.Update{Type: resource.TypeOf(eds), Resources: sized(eds, 10<<10, "e")})
		c.Ack(has(t, c.Recv(t), "e"))
		if c.last().compressed() {
			t.Errorf("a response of its own of %+v", c.last())
		}
		c.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("", cds, large("a", 10<<10))
		has(t, c.RecvType(t, cds), "a")
		if !c.last().compressed() {
			t.Errorf("a shared response of %+v", c.last())
		}
	})
}

// TestCompressedOnce: a body is compressed for the first client after those that get it
// uncompressed, and for all that follow. A body that would hardly be smaller is tried once and sent
// uncompressed.
func TestCompressedOnce(t *testing.T) {
	const clients, after = 8, 3
	f := newFleet(t, clients, 1, true, compressing(4<<10, after))
	f.takeGzip()
	for v, test := range []struct {
		m    []byte
		zips bool
	}{{bytes.Repeat([]byte("x"), 8<<10), true}, {incompressible(8 << 10), false}, {bytes.Repeat([]byte("x"), 2<<10), false}} {
		tried := f.srv.packed.Load()
		f.apply(test.m)
		f.flush()
		var head *byte
		for i, c := range f.calls {
			if got, want := c.last.Compressed, test.zips && i >= after; got != want {
				t.Errorf("body %d, client %d: compressed %t, expected %t", v, i, got, want)
			}
			if i == after {
				head = unsafe.SliceData(c.last.Body)
			}
			if i > after && unsafe.SliceData(c.last.Body) != head {
				t.Errorf("body %d: client %d has a form of its own", v, i)
			}
			if got := inflate(t, c.last); !bytes.Contains(got, test.m) || !bytes.HasSuffix(got, resource.AppendNonce(nil, nonceOf(f.streams[i].types[0]))) {
				t.Errorf("body %d, client %d: it is another", v, i)
			}
		}
		want := uint64(1)
		if len(test.m) < 4<<10 {
			want = 0
		}
		if got := f.srv.packed.Load() - tried; got != want {
			t.Errorf("body %d was compressed %d times, expected %d", v, got, want)
		}
		f.answer(t)
	}
}

// TestCompressedFormsAreBounded: a compressed form counts towards the cached bodies.
func TestCompressedFormsAreBounded(t *testing.T) {
	const size = 64 << 10
	half := hex.EncodeToString(incompressible(size / 2))
	built := func(room int64) uint64 {
		f := newFleet(t, 4, 1, true, compressing(1<<10, 0), func(c *Config) { c.BodyBytes = room })
		f.takeGzip()
		before := f.srv.bodies.Built()
		f.apply([]byte(half))
		f.flush()
		return f.srv.bodies.Built() - before
	}
	if n := built(2 * size); n != 1 {
		t.Errorf("the body was built %d times, though there is room for both of its forms", n)
	}
	if n := built(size + size/4); n != 4 {
		t.Errorf("the body was built %d times, though there is no room for its second form", n)
	}
}

func incompressible(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// apply replaces the only cluster by one with b.
func (f *fleet) apply(b []byte) {
	body, err := proto.Marshal(&anypb.Any{TypeUrl: cds, Value: b})
	if err != nil {
		f.t.Fatalf("marshal: %v", err)
	}
	r := resource.New(resource.Resource{Name: "cluster-000000", Body: body})
	f.origin().Apply(cache.Update{Type: resource.TypeOf(cds), Resources: []*resource.Resource{r}})
}

// inflate returns the content of a message.
func inflate(t *testing.T, m *transport.Message) []byte {
	t.Helper()
	b := slices.Concat(m.Body, m.Tail)
	if !m.Compressed {
		return b
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCostOfOneMoreCompressedClient: the cost of one more client that gets a compressed body: the
// message and the last block, besides what the transport adds. Nothing is compressed for it, and the
// body is not copied.
func TestCostOfOneMoreCompressedClient(t *testing.T) {
	const runs = 200
	f := newFleet(t, runs+1, 100, false, compressing(1, 0))
	f.takeGzip()
	f.touch(1)
	i, before := 0, f.srv.packed.Load()
	got := testing.AllocsPerRun(runs, func() {
		f.streams[i].Flush()
		i++
	})
	if got > 2 {
		t.Errorf("one more client costs %v allocations, at most 2 are meant", got)
	}
	if n := f.srv.packed.Load() - before; n != 1 {
		t.Errorf("the body was compressed %d times", n)
	}
	f.ack(t)
	if !f.calls[runs].last.Compressed {
		t.Error("the last client got it as it is")
	}
}

// takeGzip makes all clients of a fleet accept gzip from now on.
func (f *fleet) takeGzip() {
	for i, s := range f.streams {
		f.calls[i].gzip = true
		if s.gzip = s.acceptsGzip(nil); !s.gzip {
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
			call := &fakeCall{gzip: true, agent: c.agent}
			s := &stream{srv: srv, caller: callerOf(call)}
			node := &corev3.Node{UserAgentName: c.node}
			if got := s.acceptsGzip(node); got != c.want {
				t.Errorf("%q with the user agent %q gets gzip: %t", c.node, c.agent, got)
			}
			call.gzip = false
			if s.acceptsGzip(node) {
				t.Errorf("%q gets gzip, though it did not say that it takes it", c.node)
			}
		}
	})
}
