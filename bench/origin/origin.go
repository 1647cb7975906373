package origin

import (
	"cmp"
	"context"
	"fmt"
	"time"

	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	listenerservice "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	routeservice "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
)

// Kind is which cache of go-control-plane is used.
type Kind string

// The kinds of caches.
const (
	Snapshot Kind = "snapshot"
	Linear   Kind = "linear"
)

// Config is what a control plane serves, and how.
type Config struct {
	Spec  content.Spec
	Cache Kind
	// Loads makes it take load reports (LRS) of all clusters.
	Loads bool
	// LoadsEvery is the interval between two load reports that it asks for; 0 means 10 s.
	LoadsEvery time.Duration
}

// holder is one of the caches.
type holder interface {
	// watched is what the server answers from.
	watched() cachev3.Cache
	// apply takes over what changed.
	apply(state *content.State, step content.Step) error
}

// Origin is a control plane. It is driven by a [drive.Driver].
type Origin struct {
	spec    content.Spec  // fixed
	cache   holder        // fixed
	loads   *loads        // fixed; nil for none
	counter drive.Counter // atomic

	state *content.State // owned by who calls Change
}

// New builds the first content. That takes as long as there are keys and
// resources.
func New(cfg Config) (*Origin, error) {
	if err := cfg.Spec.Validate(); err != nil {
		return nil, err
	}
	o := &Origin{spec: cfg.Spec, state: content.NewState(cfg.Spec, time.Now())}
	if cfg.Loads {
		o.loads = &loads{every: cmp.Or(cfg.LoadsEvery, 10*time.Second)}
	}
	switch cfg.Cache {
	case Snapshot:
		o.cache = newSnapshots(&cfg.Spec)
	case Linear:
		o.cache = newLinear(&cfg.Spec)
	default:
		return nil, fmt.Errorf("cache: got %q, expected %s or %s", cfg.Cache, Snapshot, Linear)
	}
	all := content.Step{Changed: make(map[string][]int)}
	for k := range cfg.Spec.Keys {
		all.Keys = append(all.Keys, k)
	}
	for _, t := range cfg.Spec.Types() {
		numbers := make([]int, cfg.Spec.Count(t))
		for i := range numbers {
			numbers[i] = i
		}
		all.Changed[t] = numbers
	}
	if err := o.cache.apply(o.state, all); err != nil {
		return nil, err
	}
	return o, nil
}

// allTypes are the types that clients may ask for, with content or without.
func allTypes() []string {
	return []string{content.ClusterURL, content.EndpointURL, content.ListenerURL, content.RouteURL}
}

// Spec is how much there is.
func (o *Origin) Spec() *content.Spec { return &o.spec }

// Counter is what the streams are counted in.
func (o *Origin) Counter() *drive.Counter { return &o.counter }

// Change makes a change, in one key after the other.
func (o *Origin) Change(c content.Change, at time.Time) (content.Stamp, error) {
	step, err := o.state.Next(c, at)
	if err == nil {
		err = o.cache.apply(o.state, step)
	}
	return step.Stamp, err
}

// Listening is a gRPC server with all services of the content's types. Apart
// from limits that many clients would run into, its options are the defaults.
func (o *Origin) Listening() drive.Listening {
	const manyStreams = 1_000_000
	gs := grpc.NewServer(
		grpc.WaitForHandlers(true),
		grpc.StatsHandler(&statistics{&o.counter}),
		grpc.MaxConcurrentStreams(manyStreams),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 20 * time.Second}),
	)
	s := serverv3.NewServer(context.Background(), o.cache.watched(), nil)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(gs, s)
	clusterservice.RegisterClusterDiscoveryServiceServer(gs, s)
	endpointservice.RegisterEndpointDiscoveryServiceServer(gs, s)
	listenerservice.RegisterListenerDiscoveryServiceServer(gs, s)
	routeservice.RegisterRouteDiscoveryServiceServer(gs, s)
	if o.loads != nil {
		lrsv3.RegisterLoadReportingServiceServer(gs, o.loads)
	}
	return drive.GRPC(gs)
}
