package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync/atomic"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"google.golang.org/grpc"

	"xdsrelay/bench/control"
	"xdsrelay/fanout"
	"xdsrelay/fanout/limit"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// The servers that can be measured.
const (
	// ServerRelay is the relay's fan-out over its cache.
	ServerRelay = "relay"
	// ServerFloor is grpc-go with the same options and a handler that only
	// receives.
	ServerFloor = "floor"
)

// floorService is outside the names that the fan-out looks after.
const floorService = "xdsrelay.bench.Floor"

// idleServer is the server's process.
type idleServer struct {
	// Fixed after construction.
	spec  idleSpec
	addr  string
	srv   *fanout.Server
	feeds chan *cache.Feed // the one feed, once it runs

	floorStreams atomic.Int64

	// Owned by the goroutine that takes orders.
	feed     *cache.Feed
	revision int
}

// newIdleServer starts a server and returns what takes orders for it.
func newIdleServer(spec idleSpec) (handle func(order) (reply, error), end func(), err error) {
	if err := control.OpenFiles(spec.Clients + 100); err != nil {
		return nil, nil, err
	}
	s := &idleServer{spec: spec, feeds: make(chan *cache.Feed, 1)}
	pool := fanout.NewPool(0)
	store, err := cache.New(cache.Config{Wake: pool.Wake, Run: s.origin})
	if err != nil {
		return nil, nil, err
	}
	rules, err := aggregation.Compile(nil, aggregation.Options{})
	if err != nil {
		return nil, nil, err
	}
	// Metrics are part of what a stream costs.
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())).Meter("bench")
	limits, err := limit.New(limit.Values{}, meter, nil)
	if err != nil {
		return nil, nil, err
	}
	s.srv, err = fanout.New(fanout.Config{
		Cache: store, Pool: pool, NodeName: "bench", Meter: meter, Rules: func() *aggregation.Rules { return rules }, Limits: limits,
		FirstRequestTimeout: time.Hour, // streams are measured before their first request
	})
	if err != nil {
		return nil, nil, err
	}
	options := s.srv.ServerOptions()
	if spec.Server == ServerFloor {
		options = append(options, grpc.ForceServerCodecV2(rawCodec{}))
	}
	gs := grpc.NewServer(options...)
	if spec.Server == ServerFloor {
		s.registerFloor(gs)
	} else {
		s.srv.Register(gs)
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("listen: %w", err)
	}
	s.addr = l.Addr().String()
	if spec.Server == ServerRelay { // the floor is a bare server
		l = s.srv.Listen(limits.Listen(l, true), fanout.Listener{Name: "bench"})
	}
	go func() { _ = gs.Serve(l) }()
	end = func() {
		gs.Stop()
		store.Close()
		pool.Close()
	}
	return s.handle, end, nil
}

// origin answers the demand of the only key with the first revision.
func (s *idleServer) origin(ctx context.Context, f *cache.Feed) {
	f.Up()
	s.feeds <- f
	for {
		for _, d := range f.TakeDemand(false, false) {
			t := d.Table.Type
			f.Apply(cache.Update{Type: t, Resources: idleContent(t, s.spec.Resources, 0), Full: t.FullState, Version: "0"})
		}
		select {
		case <-ctx.Done():
			return
		case <-f.News():
		}
	}
}

func (s *idleServer) registerFloor(gs *grpc.Server) {
	gs.RegisterService(&grpc.ServiceDesc{
		ServiceName: floorService,
		Streams: []grpc.StreamDesc{{
			StreamName: "Stream", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error {
				s.floorStreams.Add(1)
				defer s.floorStreams.Add(-1)
				for {
					var b []byte
					if err := stream.RecvMsg(&b); err != nil {
						return err
					}
				}
			},
		}},
	}, nil)
}

func (s *idleServer) handle(o order) (reply, error) {
	switch o.Do {
	case "address":
		return reply{Addr: s.addr}, nil
	case "change":
		return reply{}, s.change(o.Count)
	case "measure":
		if err := s.settled(o.Count); err != nil {
			return reply{}, err
		}
		u, err := UsageNow()
		if err == nil && o.Profile != "" {
			err = writeProfiles(o.Profile)
		}
		return reply{Usage: &u}, err
	}
	return reply{}, fmt.Errorf("unknown order %q", o.Do)
}

// change moves the origin on by one revision.
func (s *idleServer) change(revision int) error {
	if s.feed == nil {
		select {
		case s.feed = <-s.feeds:
		default:
			return errors.New("there is no feed: no client has subscribed")
		}
	}
	for _, t := range idleTypes() {
		u := cache.Update{Type: t}
		if t.FullState {
			u.Resources, u.Full, u.Version = idleContent(t, s.spec.Resources, revision), true, fmt.Sprint(revision)
		} else {
			u.Resources = []*resource.Resource{idleChange(t, s.spec.Resources, revision)}
		}
		if n := s.feed.Apply(u); n != 1 {
			return fmt.Errorf("revision %d changed %d resources of %s, expected 1", revision, n, t.URL)
		}
	}
	s.revision = revision
	return nil
}

// settled waits until there are n streams and each has acknowledged all it got.
func (s *idleServer) settled(n int) error {
	const patience = time.Minute
	deadline, tick := time.Now().Add(patience), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for {
		streams, unacked := int(s.floorStreams.Load()), 0
		if s.spec.Server == ServerRelay {
			streams = 0
			for _, st := range s.srv.Streams() {
				streams++
				unacked += st.Unacked
			}
		}
		if streams == n && unacked == 0 {
			<-tick.C // what the last request left behind
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v there are %d streams with %d unacknowledged bytes, expected %d with none", patience, streams, unacked, n)
		}
		<-tick.C
	}
}

// writeProfiles writes the heap's and the goroutines' profiles to files that
// begin with prefix.
func writeProfiles(prefix string) error {
	for _, name := range []string{"heap", "goroutine"} {
		f, err := os.Create(filepath.Clean(prefix + "." + name + ".pprof"))
		if err != nil {
			return err
		}
		if err := errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
