package upstream

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// wire is a channel without a network, for tests in virtual time. The test decides whether it is
// ready, and each stream is served by a function.
type wire struct {
	serve func(*wireStream) error

	mu      sync.Mutex
	state   connectivity.State
	conn    int // number of the connection; see reconnect
	changed chan struct{}
	opened  []time.Time
	refused int
}

func newWire(serve func(*wireStream) error) *wire {
	return &wire{serve: serve, state: connectivity.Ready, changed: make(chan struct{})}
}

func (w *wire) set(s connectivity.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = s
	close(w.changed)
	w.changed = make(chan struct{})
}

// reconnect opens streams on another connection from now on.
func (w *wire) reconnect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn++
}

func (w *wire) GetState() connectivity.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

func (w *wire) WaitForStateChange(ctx context.Context, from connectivity.State) bool {
	w.mu.Lock()
	state, changed := w.state, w.changed
	w.mu.Unlock()
	if state != from {
		return true
	}
	select {
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *wire) Connect()             {}
func (w *wire) ResetConnectBackoff() {}
func (w *wire) Close() error         { return nil }

// opens returns when streams were opened.
func (w *wire) opens() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]time.Time(nil), w.opened...)
}

// unconnected returns the number of attempts without a connection.
func (w *wire) unconnected() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

func (w *wire) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != connectivity.Ready {
		w.refused++
		return nil, status.Error(codes.Unavailable, "no connection")
	}
	w.opened = append(w.opened, time.Now())
	ctx = peer.NewContext(ctx, &peer.Peer{LocalAddr: &net.TCPAddr{Port: 1024 + w.conn}})
	s := &wireStream{ctx: ctx, fromClient: make(chan proto.Message, 100), toClient: make(chan *resource.Response), end: make(chan error, 1)}
	go func() { s.end <- w.serve(s) }()
	return s, nil
}

// wireStream is a stream of a wire; serve receives and responds.
type wireStream struct {
	grpc.ClientStream
	ctx        context.Context
	fromClient chan proto.Message
	toClient   chan *resource.Response
	end        chan error
}

func (s *wireStream) Context() context.Context { return s.ctx }

func (s *wireStream) Header() (metadata.MD, error) { return nil, nil }

func (s *wireStream) SendMsg(m any) error {
	select {
	case s.fromClient <- m.(proto.Message):
		return nil
	case <-s.ctx.Done():
		return io.EOF
	}
}

func (s *wireStream) RecvMsg(m any) error {
	select {
	case r := <-s.toClient:
		m.(*incoming).response = r
		return nil
	case err := <-s.end:
		return err
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

// recv waits for a request.
func (s *wireStream) recv() proto.Message {
	select {
	case m := <-s.fromClient:
		return m
	case <-s.ctx.Done():
		return nil
	}
}

// respond answers with clusters.
func (s *wireStream) respond(names ...string) {
	r := &resource.Response{Type: resource.TypeOf(cds), Version: "1", Nonce: "n"}
	for _, n := range names {
		r.Resources = append(r.Resources, resource.New(resource.Resource{Name: n, Body: []byte(n)}))
	}
	select {
	case s.toClient <- r:
	case <-s.ctx.Done():
	}
}

// bare is a runner without server streams, whose key has a client that wants clusters a and b.
func bare(t *testing.T, delta bool, addresses ...string) (*runner, *client) {
	feeds := make(chan *cache.Feed, 1)
	c, err := cache.New(cache.Config{
		Run: func(ctx context.Context, f *cache.Feed) {
			feeds <- f
			<-ctx.Done()
		},
		Linger: -1,
		Wake:   func([]*cache.Subscription) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cp, err := newControlPlane(ControlPlaneConfig{Addresses: addresses, Delta: delta},
		func(string, *ControlPlaneConfig) (channel, error) { return newWire(nil), nil })
	if err != nil {
		t.Fatal(err)
	}
	client := (&rig{t: t, cp: cp, cache: c}).join("k").want(cds, "a", "b")
	return newRunner(cp, <-feeds), client
}

// bareSession is a stream to a server of r that records what is sent.
func (r *runner) bareSession(t *testing.T, server int) (*session, *wireStream) {
	stream := &wireStream{ctx: t.Context(), fromClient: make(chan proto.Message, 10)}
	return newSession(&serverStream{server: r.cp.servers[server], stop: func() {}}, stream, func(error) {}), stream
}

// sent returns and clears what was sent so far: the names of each request, joined by "+", and those
// that it unsubscribes, each after a "-".
func (s *wireStream) sent() string {
	var all []string
	for {
		select {
		case m := <-s.fromClient:
			switch m := m.(type) {
			case *discoveryv3.DiscoveryRequest:
				all = append(all, strings.Join(m.GetResourceNames(), "+"))
			case *discoveryv3.DeltaDiscoveryRequest:
				said := strings.Join(m.GetResourceNamesSubscribe(), "+")
				if drop := m.GetResourceNamesUnsubscribe(); len(drop) > 0 {
					said += "-" + strings.Join(drop, "-")
				}
				all = append(all, said)
			}
		default:
			return strings.Join(all, " ")
		}
	}
}
