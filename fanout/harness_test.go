package fanout

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

func TestMain(m *testing.M) {
	encoding.RegisterCompressor(foreign{})
	goleak.VerifyTestMain(m)
}

// world is a fan-out over a real gRPC server whose control plane is the test itself: what it
// applies is what an upstream stream would have received.
type world struct {
	t      xdstest.TB
	srv    *Server
	cache  *cache.Cache
	net    *xdstest.Memory
	addr   string
	conn   *xdstest.Conn
	feeds  chan running                                             // of each key, in the order of their first clients
	feed   *cache.Feed                                              // of the first key, once requested
	source string                                                   // control_plane.identifier of the control plane
	secure func(net.Conn) (net.Conn, aggregation.Connection, error) // nil for plaintext
	also   func(*grpc.Server)                                       // registers other services; nil for none
}

// running is a feed with its context.
type running struct {
	*cache.Feed
	ctx context.Context
}

// newWorld serves over gRPC.
func newWorld(t xdstest.TB, change ...func(*Config)) *world {
	t.Helper()
	return newSilentWorld(t, change...).listen()
}

// virtual runs a test in virtual time: an event that the test waits for happens before any timeout
// of the server under test, however busy the machine is.
func virtual(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

// listen starts a gRPC server for the world and a connection to it, without a socket.
func (w *world) listen() *world {
	t := w.t
	t.Helper()
	gs := grpc.NewServer(w.srv.ServerOptions()...)
	w.srv.Register(gs)
	if w.also != nil {
		w.also(gs)
	}
	if w.net == nil {
		w.net = xdstest.NewMemory()
	}
	inner, err := w.net.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	l := w.srv.Listen(w.srv.cfg.Limits.Listen(inner, w.secure == nil), Listener{Name: "default", Secure: w.secure})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = gs.Serve(l)
	}()
	w.addr = l.Addr().String()
	t.Cleanup(func() {
		w.check()
		gs.Stop()
		<-served
	})
	w.conn = w.dial()
	return w
}

// dial returns another connection to the server.
func (w *world) dial(opts ...grpc.DialOption) *xdstest.Conn {
	w.t.Helper()
	return w.net.Client(w.t, w.addr, opts...)
}

// newSilentWorld has no gRPC server: its streams are fakes.
func newSilentWorld(t xdstest.TB, change ...func(*Config)) *world {
	t.Helper()
	return newWorldOf(t, cache.Config{Linger: time.Minute}, change...)
}

// newWorldOf is newSilentWorld with the given cache.
func newWorldOf(t xdstest.TB, cc cache.Config, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, feeds: make(chan running, 100)}
	pool := NewPool(2)
	var err error
	cc.Wake = pool.Wake
	cc.Run = func(ctx context.Context, f *cache.Feed) {
		w.feeds <- running{f, ctx}
		<-ctx.Done()
	}
	w.cache, err = cache.New(cc)
	if err != nil {
		t.Fatalf("cache: %v", err)
	}
	rules, err := aggregation.Compile(nil, aggregation.Options{})
	if err != nil {
		t.Fatalf("rules: %v", err)
	}
	cfg := Config{
		Cache: w.cache, Pool: pool, NodeName: "relay-1",
		Rules: func() *aggregation.Rules { return rules },
	}
	for _, c := range change {
		c(&cfg)
	}
	if w.srv, err = New(cfg); err != nil {
		t.Fatalf("server: %v", err)
	}
	t.Cleanup(func() {
		w.check()
		w.cache.Close()
		pool.Close()
	})
	return w
}

// check fails the test if the server's state is contradictory.
func (w *world) check() {
	w.t.Helper()
	for _, wrong := range append(w.cache.Check(), w.srv.Check()...) {
		w.t.Errorf("check: %s", wrong)
	}
}

// open opens a stream of a client of the key "test-cluster".
func (w *world) open(delta bool) *xdstest.Stream {
	w.t.Helper()
	return w.conn.Open(xdstest.Variant{Delta: delta})
}

// origin returns the feed of the first key that got a client.
func (w *world) origin() *cache.Feed {
	w.t.Helper()
	if w.feed == nil {
		select {
		case f := <-w.feeds:
			w.feed = f.Feed
		case <-time.After(xdstest.Patience):
			w.t.Fatalf("no client made the relay ask its origin")
		}
	}
	return w.feed
}

// asked waits until the clients subscribe to exactly these names of a type ("*" for the wildcard),
// and takes that demand like an upstream stream.
func (w *world) asked(typeURL string, names ...string) {
	w.t.Helper()
	f := w.origin()
	xdstest.Eventually(w.t, "the demand to be as expected", func() bool {
		for _, d := range f.TakeDemand(true, true) {
			if d.Table.Type.URL != typeURL {
				continue
			}
			got := map[string]bool{}
			for _, n := range d.Names {
				got[n] = true
			}
			if d.Wildcard {
				got["*"] = true
			}
			if len(got) != len(names) {
				return false
			}
			for _, n := range names {
				if !got[n] {
					return false
				}
			}
			return true
		}
		return len(names) == 0
	})
}

// serve applies a response of a SotW control plane: the full state of a type.
func (w *world) serve(version string, typeURL string, ms ...proto.Message) {
	w.t.Helper()
	u := cache.Update{Type: resource.TypeOf(typeURL), Version: version, Source: w.source}
	u.Full = u.Type.FullState
	u.Resources = resources(w.t, ms...)
	w.origin().Apply(u)
}

// change applies a response of a delta control plane.
func (w *world) change(typeURL string, removed []string, ms ...proto.Message) {
	w.t.Helper()
	w.origin().Apply(cache.Update{Type: resource.TypeOf(typeURL), Resources: resources(w.t, ms...), Removed: removed, Source: w.source})
}

func resources(t xdstest.TB, ms ...proto.Message) (out []*resource.Resource) {
	t.Helper()
	for _, m := range ms {
		body, err := proto.MarshalOptions{Deterministic: true}.Marshal(xdstest.Any(m))
		if err != nil {
			t.Fatalf("marshal: %v", err)
		}
		r := resource.Resource{Name: xdstest.NameOf(m), Body: body}
		if xdstest.TypeOf(m) == resource.ClusterURL {
			r.Endpoints = r.Name
		}
		out = append(out, resource.New(r))
	}
	return out
}

// cluster returns a cluster whose content depends on v.
func cluster(name string, v int) proto.Message {
	return xdstest.Cluster(name, time.Duration(v+1)*time.Second)
}
