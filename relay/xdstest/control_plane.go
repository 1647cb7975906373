package xdstest

import (
	"context"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	extensionservice "github.com/envoyproxy/go-control-plane/envoy/service/extension/v3"
	listenerservice "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	routeservice "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	runtimeservice "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	secretservice "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdsclient"
)

// ControlPlane is a real go-control-plane server with one of its caches, which
// keep their contents while the server is stopped.
type ControlPlane struct {
	// Snapshots is the cache of [NewControlPlane] and [NewLenientControlPlane],
	// by node; nil otherwise.
	Snapshots cachev3.SnapshotCache
	// Linear are the caches of [NewLinearControlPlane], by type URL; nil
	// otherwise.
	Linear map[string]*cachev3.LinearCache

	srv   *server       // fixed
	cache cachev3.Cache // fixed; one of the above
	log   *Transcript   // fixed

	mu      sync.Mutex
	counts  Counts                              // guarded by mu
	arrives func(stream int64, m proto.Message) // guarded by mu; nil: nobody listens
	refuses func(*corev3.Node) error            // guarded by mu; nil: nobody is refused
}

// NewControlPlane starts a server of snapshots in ADS mode, in which a SotW
// client gets an answer only once it has named all that a snapshot holds of a
// type. nodeKey tells which snapshot a node gets; nil means that of its cluster.
func NewControlPlane(t TB, nodeKey func(*corev3.Node) string) *ControlPlane {
	t.Helper()
	return (*Memory)(nil).NewControlPlane(t, nodeKey)
}

// NewControlPlane is [NewControlPlane] on this network.
func (m *Memory) NewControlPlane(t TB, nodeKey func(*corev3.Node) string) *ControlPlane {
	t.Helper()
	return newSnapshotControlPlane(t, m, nodeKey, true)
}

// NewLenientControlPlane is NewControlPlane without the ADS mode: a client may
// name any part of what a snapshot holds.
func NewLenientControlPlane(t TB, nodeKey func(*corev3.Node) string) *ControlPlane {
	t.Helper()
	return (*Memory)(nil).NewLenientControlPlane(t, nodeKey)
}

// NewLenientControlPlane is [NewLenientControlPlane] on this network.
func (m *Memory) NewLenientControlPlane(t TB, nodeKey func(*corev3.Node) string) *ControlPlane {
	t.Helper()
	return newSnapshotControlPlane(t, m, nodeKey, false)
}

func newSnapshotControlPlane(t TB, m *Memory, nodeKey func(*corev3.Node) string, ads bool) *ControlPlane {
	t.Helper()
	if nodeKey == nil {
		nodeKey = (*corev3.Node).GetCluster
	}
	snapshots := cachev3.NewSnapshotCache(ads, nodeHash(nodeKey), nil)
	return startControlPlane(t, m, &ControlPlane{Snapshots: snapshots, cache: snapshots})
}

// NewLinearControlPlane starts a server with a linear cache for each type that
// go-control-plane knows, the same for every node.
func NewLinearControlPlane(t TB) *ControlPlane {
	t.Helper()
	return (*Memory)(nil).NewLinearControlPlane(t)
}

// NewLinearControlPlane is [NewLinearControlPlane] on this network.
func (m *Memory) NewLinearControlPlane(t TB) *ControlPlane {
	t.Helper()
	cp := &ControlPlane{Linear: make(map[string]*cachev3.LinearCache)}
	mux := &cachev3.MuxCache{
		Classify:      func(r *cachev3.Request) string { return r.GetTypeUrl() },
		ClassifyDelta: func(r *cachev3.DeltaRequest) string { return r.GetTypeUrl() },
		Caches:        make(map[string]cachev3.Cache),
	}
	for i := range types.UnknownType {
		typeURL, err := cachev3.GetResponseTypeURL(i)
		if err != nil {
			t.Fatalf("%v", err)
		}
		cp.Linear[typeURL] = cachev3.NewLinearCache(typeURL)
		mux.Caches[typeURL] = cp.Linear[typeURL]
	}
	cp.cache = mux
	return startControlPlane(t, m, cp)
}

func startControlPlane(t TB, m *Memory, cp *ControlPlane) *ControlPlane {
	t.Helper()
	cp.log = NewTranscript("the control plane", 400)
	cp.srv = newServer(t, m, cp.register)
	if err := cp.Start(); err != nil {
		t.Fatalf("%v", err)
	}
	return cp
}

// Addr is where the server listens, the same for its life.
func (cp *ControlPlane) Addr() string { return cp.srv.addr() }

// Transcript is what was said so far, on all streams, for messages of failing
// tests.
func (cp *ControlPlane) Transcript() string { return cp.log.String() }

// Stop cuts all streams and refuses connections until [ControlPlane.Start].
func (cp *ControlPlane) Stop() { cp.srv.stop() }

// Start accepts connections again, at the same address.
func (cp *ControlPlane) Start() error { return cp.srv.start() }

// Restart is Stop and Start.
func (cp *ControlPlane) Restart() error {
	cp.Stop()
	return cp.Start()
}

// SetSnapshot replaces the snapshot of a node key. Resources go by the names in
// their bodies. Types of which there are none have no version, so that a SotW
// client which quotes none hears nothing of them.
func (cp *ControlPlane) SetSnapshot(t TB, key, version string, resources ...proto.Message) {
	t.Helper()
	cp.SetSnapshotOf(t, nil, key, version, resources...)
}

// SetSnapshotOf is SetSnapshot where the types of typeURLs have a version in any
// case.
func (cp *ControlPlane) SetSnapshotOf(t TB, typeURLs []string, key, version string, resources ...proto.Message) {
	t.Helper()
	byType := make(map[string][]types.Resource)
	for _, u := range typeURLs {
		byType[u] = nil
	}
	for _, r := range resources {
		byType[TypeOf(r)] = append(byType[TypeOf(r)], r)
	}
	snapshot, err := cachev3.NewSnapshot(version, byType)
	if err == nil {
		err = cp.Snapshots.SetSnapshot(context.Background(), key, snapshot)
	}
	if err != nil {
		t.Fatalf("snapshot %q of %q: %v", version, key, err)
	}
}

// SetLinear adds or replaces resources in the linear caches.
func (cp *ControlPlane) SetLinear(t TB, resources ...proto.Message) {
	t.Helper()
	byType := make(map[string]map[string]types.Resource)
	for _, r := range resources {
		if byType[TypeOf(r)] == nil {
			byType[TypeOf(r)] = make(map[string]types.Resource)
		}
		byType[TypeOf(r)][NameOf(r)] = r
	}
	for typeURL, rs := range byType {
		if err := cp.linear(t, typeURL).UpdateResources(rs, nil); err != nil {
			t.Fatalf("update the linear cache of %s: %v", typeURL, err)
		}
	}
}

// RemoveLinear removes resources from the linear cache of a type.
func (cp *ControlPlane) RemoveLinear(t TB, typeURL string, names ...string) {
	t.Helper()
	if err := cp.linear(t, typeURL).UpdateResources(nil, names); err != nil {
		t.Fatalf("remove %s from the linear cache of %s: %v", xdsclient.Brief(names), typeURL, err)
	}
}

func (cp *ControlPlane) linear(t TB, typeURL string) *cachev3.LinearCache {
	t.Helper()
	c := cp.Linear[typeURL]
	if c == nil {
		t.Fatalf("no linear cache for type %q", typeURL)
	}
	return c
}

// Counts says what the server has seen so far.
func (cp *ControlPlane) Counts() Counts {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return cp.counts
}

func (cp *ControlPlane) count(add func(*Counts)) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	add(&cp.counts)
}

// OnRequest makes the server call f with each request and the number of its
// stream, before it acts on it. What f changes in the cache crosses the request:
// go-control-plane has an answer to the stream's last request under way while it
// deals with this one.
func (cp *ControlPlane) OnRequest(f func(stream int64, m proto.Message)) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.arrives = f
}

// Refuse ends streams with the error of f for their Node, if it is not nil. Open streams stay until
// their next request.
func (cp *ControlPlane) Refuse(f func(*corev3.Node) error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.refuses = f
}

func (cp *ControlPlane) refused(n *corev3.Node) error {
	cp.mu.Lock()
	refuses := cp.refuses
	cp.mu.Unlock()
	if refuses == nil || n == nil {
		return nil
	}
	return refuses(n)
}

// register serves ADS and every per-type service that go-control-plane has.
func (cp *ControlPlane) register(g *grpc.Server) {
	open := func(context.Context, int64, string) error {
		cp.count(func(c *Counts) { c.Streams++; c.Open++ })
		return nil
	}
	closed := func(int64, *corev3.Node) { cp.count(func(c *Counts) { c.Open-- }) }
	request := func(kind string, id int64, m proto.Message, isNack bool) {
		cp.log.add("%s#%d <- %s", kind, id, lineOf(m))
		cp.count(func(c *Counts) {
			c.Requests++
			if isNack {
				c.Nacks++
			}
		})
		cp.mu.Lock()
		arrives := cp.arrives
		cp.mu.Unlock()
		if arrives != nil {
			arrives(id, m)
		}
	}
	response := func(kind string, id int64, m proto.Message) {
		cp.log.add("%s#%d -> %s", kind, id, lineOf(m))
		cp.count(func(c *Counts) { c.Responses++ })
	}
	s := serverv3.NewServer(context.Background(), cp.cache, serverv3.CallbackFuncs{
		StreamOpenFunc: open, DeltaStreamOpenFunc: open,
		StreamClosedFunc: closed, DeltaStreamClosedFunc: closed,
		StreamRequestFunc: func(id int64, r *discoveryv3.DiscoveryRequest) error {
			request("sotw", id, r, r.GetErrorDetail() != nil)
			return cp.refused(r.GetNode())
		},
		StreamDeltaRequestFunc: func(id int64, r *discoveryv3.DeltaDiscoveryRequest) error {
			request("delta", id, r, r.GetErrorDetail() != nil)
			return cp.refused(r.GetNode())
		},
		StreamResponseFunc: func(_ context.Context, id int64, _ *discoveryv3.DiscoveryRequest, r *discoveryv3.DiscoveryResponse) {
			response("sotw", id, r)
		},
		StreamDeltaResponseFunc: func(id int64, _ *discoveryv3.DeltaDiscoveryRequest, r *discoveryv3.DeltaDiscoveryResponse) {
			response("delta", id, r)
		},
	})
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
	listenerservice.RegisterListenerDiscoveryServiceServer(g, s)
	routeservice.RegisterRouteDiscoveryServiceServer(g, s)
	routeservice.RegisterScopedRoutesDiscoveryServiceServer(g, s)
	routeservice.RegisterVirtualHostDiscoveryServiceServer(g, s)
	clusterservice.RegisterClusterDiscoveryServiceServer(g, s)
	endpointservice.RegisterEndpointDiscoveryServiceServer(g, s)
	secretservice.RegisterSecretDiscoveryServiceServer(g, s)
	runtimeservice.RegisterRuntimeDiscoveryServiceServer(g, s)
	extensionservice.RegisterExtensionConfigDiscoveryServiceServer(g, s)
}

// nodeHash makes a function what go-control-plane takes for one.
type nodeHash func(*corev3.Node) string

// ID is the snapshot's key for a node.
func (h nodeHash) ID(n *corev3.Node) string { return h(n) }
