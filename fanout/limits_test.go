package fanout

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout/limit"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// When memory is short, the clients that use most of it end first: clients that do not read, that
// do not complete a message, or that subscribe to many names alone. Few end at a time.
func TestShedCostly(t *testing.T) {
	var log bytes.Buffer // has a line for each limit that was reached
	w := newWorld(t, func(c *Config) {
		var err error
		if c.Limits, err = limit.New(limit.Values{}, nil, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
	})
	modest := w.open(true)
	modest.Subscribe(cds)
	w.asked(cds, "*")
	w.serve("v1", cds, cluster("a", 1))
	modest.Ack(has(t, modest.Recv(t), "a"))

	conn := w.dial()
	costly := conn.Open(xdstest.Variant{Delta: true})
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprint("name-", i))
	}
	costly.Subscribe(eds, names...)
	w.askedMany(eds, len(names))
	if n := w.srv.ShedCostly(); n != 1 {
		t.Errorf("%d clients were sent away, want 1", n)
	}
	refusedWith(t, costly, codes.ResourceExhausted, limit.Memory.About().Field)
	w.serve("v2", cds, cluster("a", 2))
	modest.Ack(has(t, modest.Recv(t), "a"))
	xdstest.Eventually(t, "the costly client to be gone", func() bool { return w.srv.Count() == 1 })
	if text := log.String(); !strings.Contains(text, "limit=memory") || strings.Contains(text, "limit=message_size") {
		t.Errorf("it counts as %s", text)
	}
}

// askedMany waits until the given number of names of a type is subscribed.
func (w *world) askedMany(typeURL string, names int) {
	w.t.Helper()
	xdstest.Eventually(w.t, "the names to be asked for", func() bool {
		for _, d := range w.origin().TakeDemand(true, true) {
			if d.Table.Type.URL == typeURL && len(d.Names) == names {
				return true
			}
		}
		return false
	})
}

// An incomplete message counts with the bytes received.
func TestUnfinishedMessagesCount(t *testing.T) {
	w := newWorld(t)
	s := w.open(true)
	s.Subscribe(cds)
	w.asked(cds, "*")
	connections := w.srv.connections()
	if len(connections) != 1 {
		t.Fatalf("%d guests", len(connections))
	}
	before := connections[0].costs()
	if before > 1<<10 {
		t.Errorf("a client that has said little costs %d bytes", before)
	}
	// A request that was read does not count any more.
	s.Subscribe(eds, strings.Repeat("x", 30_000))
	w.askedMany(eds, 1)
	xdstest.Eventually(t, "the request to be taken", func() bool { return connections[0].conn.Unread() == 0 })
}

// TestUnservedStreamsCost: a connection that uses most memory ends even if nothing on it is for a
// service of this package.
func TestUnservedStreamsCost(t *testing.T) {
	w := newSilentWorld(t, func(c *Config) { c.FirstRequestTimeout = time.Hour }) // however slow the machine is
	w.also = func(gs *grpc.Server) { healthpb.RegisterHealthServer(gs, health.NewServer()) }
	w.listen()
	modest := w.open(true)
	modest.Subscribe(cds)
	w.asked(cds, "*")
	w.serve("v1", cds, cluster("a", 1))
	modest.Ack(has(t, modest.Recv(t), "a"))

	conn, err := w.net.Dial(t.Context(), w.addr)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 1)
	in := http2.NewFramer(conn, conn)
	go func() {
		defer close(ended)
		for f, err := in.ReadFrame(); err == nil; f, err = in.ReadFrame() {
			if away, ok := f.(*http2.GoAwayFrame); ok {
				ended <- string(away.DebugData())
				return
			}
		}
	}()
	defer func() {
		_ = conn.Close()
		for range ended {
		}
	}()
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = in.WriteSettings()
	var block bytes.Buffer
	fields := hpack.NewEncoder(&block)
	for id := uint32(1); id < 2*40; id += 2 {
		block.Reset()
		for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", healthpb.Health_Check_FullMethodName}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
			_ = fields.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		_ = in.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
		rest := append([]byte{0, 0, 1, 0, 0}, make([]byte, 60_000)...) // of 64 KiB
		for piece := range slices.Chunk(rest, 16<<10) {
			_ = in.WriteData(id, false, piece)
		}
	}
	xdstest.Eventually(t, "what has come to be known", func() bool { return len(w.srv.streamless(time.Now())) == 1 })
	w.srv.ShedCostly()
	if why := <-ended; !strings.Contains(why, limit.Memory.About().Field) {
		t.Errorf("the connection ended with %q, expected that it takes too much", why)
	}
	w.serve("v2", cds, cluster("a", 2))
	modest.Ack(has(t, modest.Recv(t), "a"))
}

// While memory is nearly used up new clients are refused, connected ones continue, and once enough
// is free new ones are served: with the memory limit of this process.
func TestMemoryIsShort(t *testing.T) {
	l, err := limit.New(limit.Values{MemoryPercent: 50}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) { c.Limits = l })
	first := w.open(true)
	first.Subscribe(cds)
	w.asked(cds, "*")
	w.serve("v1", cds, cluster("a", 1))
	first.Ack(has(t, first.Recv(t), "a"))

	before := debug.SetMemoryLimit(32 << 20)
	defer debug.SetMemoryLimit(before)
	hold := make([]byte, 24<<20)
	for i := range hold {
		hold[i] = 1
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	shrunk := make(chan struct{}, 100)
	go func() {
		defer close(done)
		l.Run(ctx, limit.Relief{Shrink: func() {
			select {
			case shrunk <- struct{}{}:
			default:
			}
		}, EndIdle: func() {}, Shed: func() int { return 0 }})
	}()
	defer func() { cancel(); <-done }()
	xdstest.Eventually(t, "a new stream to be refused", func() bool {
		s := w.dial().Open(xdstest.Variant{Delta: true})
		s.Subscribe(cds)
		_, err := s.Next(time.Second, func(*xdstest.Frame) bool { return true })
		if err == nil {
			return false
		}
		refusedWith(t, s, codes.ResourceExhausted, "% of this node's memory limit is in use: the limit is 50 (limits.max_memory_percent)")
		return true
	})
	<-shrunk
	w.serve("v2", cds, cluster("a", 2))
	first.Ack(has(t, first.Recv(t), "a"))
	if hold[1] != 1 { // may be freed from here on
		t.Fatal("nothing is held")
	}
	debug.SetMemoryLimit(before)
	xdstest.Eventually(t, "a new stream to be served", func() bool {
		s := w.dial().Open(xdstest.Variant{Delta: true})
		s.Subscribe(resource.ClusterURL)
		_, err := s.Next(time.Second, func(*xdstest.Frame) bool { return true })
		return err == nil
	})
}

// TestIdleConnectionsMakeRoom: there are as many connections as the memory limit has room for,
// however fast they arrive. One more is refused, and then the oldest connections without a stream
// end, so that new clients are served and clients with streams continue.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	l, err := limit.New(limit.Values{MemoryPercent: 95}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) { c.Limits, c.HandshakeTimeout = l, time.Hour })
	const room = 4000
	before := debug.SetMemoryLimit(room * limit.ConnectionMemory)
	defer debug.SetMemoryLimit(before)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx, limit.Relief{Shrink: func() {}, EndIdle: w.srv.EndStreamless, Shed: w.srv.ShedCostly})
	}()
	defer func() { cancel(); <-done }()
	xdstest.Eventually(t, "the limit to be known", func() bool { _, known := l.Memory(); return known > 0 })
	good := w.open(true)
	good.Subscribe(cds)
	w.asked(cds, "*")
	w.serve("v1", cds, cluster("a", 1))
	good.Ack(has(t, good.Recv(t), "a"))
	for range room + room/2 {
		conn, err := w.net.Dial(t.Context(), w.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		go func() { _, _ = io.Copy(io.Discard, conn) }()
	}
	// The limit no longer counts connections that the node has ended, of which the goroutines have
	// yet to notice.
	xdstest.Eventually(t, "connections to be within the limit", func() bool { return len(w.openConns()) <= room })
	xdstest.Eventually(t, "a new stream to be served", func() bool {
		s := w.dial().Open(xdstest.Variant{Delta: true})
		s.Subscribe(resource.ClusterURL)
		_, err := s.Next(time.Second, func(*xdstest.Frame) bool { return true })
		return err == nil
	})
	w.serve("v2", cds, cluster("a", 2))
	good.Ack(has(t, good.Recv(t), "a"))
}

// TestHeldIsBounded: what a client says it holds is kept until it can be compared, which is never
// for a type that the control plane does not know. So it is bounded, over all types of a stream,
// and its memory counts as cost of the client. (B37)
func TestHeldIsBounded(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxReceiveBytes = 64 << 10 })
	held := make(map[string]string)
	for i := range 500 {
		held[fmt.Sprint("a-name-of-something-", i)] = "a version"
	}
	s := w.open(true)
	holds := func(i int) {
		s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: w.conn.Node, TypeUrl: fmt.Sprint(resource.TypePrefix, "x.T", i), ResourceNamesSubscribe: []string{"a"}, InitialResourceVersions: held})
	}
	holds(0)
	xdstest.Eventually(t, "what it holds to count", func() bool {
		g := w.srv.connections()
		return len(g) == 1 && g[0].costs() > 40_000
	})
	for i := range 4 {
		holds(i + 1)
	}
	refusedWith(t, s, codes.ResourceExhausted, "of names and versions that one stream reports in initial_resource_versions: the limit is 131072 (limits.max_request_size)")
}

// TestLongNames: a name cannot be so long that hashing it delays other clients of the type, in
// either variant.
func TestLongNames(t *testing.T) {
	w := newWorld(t)
	for _, delta := range []bool{false, true} {
		s := w.open(delta)
		s.Subscribe(resource.EndpointURL, "a", strings.Repeat("x", MaxName+1))
		refusedWith(t, s, codes.ResourceExhausted, "a resource name has 65537 bytes, expected at most 65536")
	}
	holds := w.open(true)
	holds.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: w.conn.Node, TypeUrl: resource.EndpointURL, ResourceNamesSubscribe: []string{"a"},
		InitialResourceVersions: map[string]string{strings.Repeat("x", MaxName+1): "1"},
	})
	refusedWith(t, holds, codes.ResourceExhausted, "a resource name has 65537 bytes, expected at most 65536")
	s := w.open(true)
	s.Subscribe(resource.EndpointURL, strings.Repeat("x", MaxName))
	w.asked(resource.EndpointURL, strings.Repeat("x", MaxName))
}

// TestClaimedVersionIsBounded: a version that is longer than all versions of this relay proves
// nothing, and is not kept.
func TestClaimedVersionIsBounded(t *testing.T) {
	w := newWorld(t)
	s := w.open(false)
	s.Send(&discoveryv3.DiscoveryRequest{Node: w.conn.Node, TypeUrl: cds, VersionInfo: strings.Repeat("v", 1<<20)})
	w.asked(cds, "*")
	if g := w.srv.connections(); len(g) != 1 || g[0].costs() > 4<<10 {
		t.Errorf("%d clients, of which the first costs %d bytes", len(g), g[0].costs())
	}
	w.serve("v1", cds, cluster("a", 1))
	s.Ack(has(t, s.Recv(t), "a"))
}

// TestNodeParts: a Node with very many small messages is refused before they are decoded.
func TestNodeParts(t *testing.T) {
	w := newWorld(t)
	for parts, refused := range map[int]bool{MaxNodeParts + 1: true, 5_000: false} {
		s := w.open(true)
		node := proto.Clone(w.conn.Node).(*corev3.Node)
		node.Extensions = slices.Repeat([]*corev3.Extension{{}}, parts)
		s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: cds})
		if refused {
			refusedWith(t, s, codes.ResourceExhausted, "the node in the first request has more than 20000 parts")
			continue
		}
		w.asked(cds, "*")
	}
}

// TestNamesOfAKeyAreBounded: the client whose names would exceed what the control plane can be
// asked for with one key is refused with the limit and the reason, and its names are not subscribed
// upstream; other clients of the key continue.
func TestNamesOfAKeyAreBounded(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorldOf(t, cache.Config{Streams: []cache.OriginStream{{MaxNames: 1000}}}).listen()
		good, bad := w.open(delta), w.open(delta)
		good.Subscribe(eds, "a")
		w.asked(eds, "a")
		bad.Subscribe(eds, "b", strings.Repeat("n", 1000))
		refusedWith(t, bad, codes.ResourceExhausted, "bytes of names of one type asked for by the clients of this key: the limit is 1000 (upstream.max_names_size)")
		w.change(eds, nil, endpoints("a", 1))
		good.Ack(has(t, good.Recv(t), "a"))
		w.asked(eds, "a")
	})
}
