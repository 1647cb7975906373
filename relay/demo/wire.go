package demo

import (
	"context"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// stream is an open stream of a client, guarded by the client's mu but for
// wire.receive, which belongs to the goroutine of follow.
type stream struct {
	wire       wire
	types      []string
	asked      map[string]*subscription // by type
	introduced bool
}

// subscription is how a stream stands with one type.
type subscription struct {
	names          []string // sorted; nil for a wildcard
	version, nonce string
}

// response is what either variant says.
type response struct {
	typeURL, version, nonce string
	bodies                  map[string][]byte // by name
	removed                 []string
	whole                   bool // what is not in bodies does not exist
	size                    int
}

// wire is a stream in one of the two variants.
type wire interface {
	// subscribe states what a subscription has become; who introduces the client.
	subscribe(typeURL string, sub *subscription, old []string, who *client) error
	// answer acknowledges the newest response, or rejects it.
	answer(typeURL string, sub *subscription, wrong error) error
	receive() (*response, error)
}

// openWire opens the stream of a kind: aggregated, or for the one type.
func openWire(ctx context.Context, conn *grpc.ClientConn, k *kind, types []string) (wire, error) {
	switch {
	case k.delta && !k.perType:
		s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
		return deltaWire{s}, err
	case k.delta && types[0] == clusterType:
		s, err := clusterservice.NewClusterDiscoveryServiceClient(conn).DeltaClusters(ctx)
		return deltaWire{s}, err
	case k.delta:
		s, err := endpointservice.NewEndpointDiscoveryServiceClient(conn).DeltaEndpoints(ctx)
		return deltaWire{s}, err
	case !k.perType:
		s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
		return sotwWire{s}, err
	case types[0] == clusterType:
		s, err := clusterservice.NewClusterDiscoveryServiceClient(conn).StreamClusters(ctx)
		return sotwWire{s}, err
	default:
		s, err := endpointservice.NewEndpointDiscoveryServiceClient(conn).StreamEndpoints(ctx)
		return sotwWire{s}, err
	}
}

// sotwWire speaks state of the world: each request lists all names again.
type sotwWire struct {
	grpc.BidiStreamingClient[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]
}

func (w sotwWire) subscribe(typeURL string, sub *subscription, _ []string, who *client) error {
	return w.Send(&discoveryv3.DiscoveryRequest{
		TypeUrl: typeURL, ResourceNames: sub.names, VersionInfo: sub.version, ResponseNonce: sub.nonce, Node: who.node(),
	})
}

func (w sotwWire) answer(typeURL string, sub *subscription, wrong error) error {
	return w.Send(&discoveryv3.DiscoveryRequest{
		TypeUrl: typeURL, ResourceNames: sub.names, VersionInfo: sub.version, ResponseNonce: sub.nonce, ErrorDetail: detail(wrong),
	})
}

func (w sotwWire) receive() (*response, error) {
	m, err := w.Recv()
	if err != nil {
		return nil, err
	}
	r := &response{
		typeURL: m.GetTypeUrl(), version: m.GetVersionInfo(), nonce: m.GetNonce(), size: proto.Size(m),
		bodies: make(map[string][]byte, len(m.GetResources())),
		whole:  m.GetTypeUrl() == clusterType || m.GetTypeUrl() == listenerType,
	}
	for _, body := range m.GetResources() {
		r.bodies[nameOf(body.GetValue())] = body.GetValue()
	}
	return r, nil
}

// deltaWire speaks of changes only.
type deltaWire struct {
	grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
}

func (w deltaWire) subscribe(typeURL string, sub *subscription, old []string, who *client) error {
	without := func(names, other []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(other, n) })
	}
	return w.Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: typeURL, Node: who.node(),
		ResourceNamesSubscribe: without(sub.names, old), ResourceNamesUnsubscribe: without(old, sub.names),
	})
}

func (w deltaWire) answer(typeURL string, sub *subscription, wrong error) error {
	return w.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: sub.nonce, ErrorDetail: detail(wrong)})
}

func (w deltaWire) receive() (*response, error) {
	m, err := w.Recv()
	if err != nil {
		return nil, err
	}
	r := &response{
		typeURL: m.GetTypeUrl(), version: m.GetSystemVersionInfo(), nonce: m.GetNonce(), size: proto.Size(m),
		bodies: make(map[string][]byte, len(m.GetResources())), removed: m.GetRemovedResources(),
	}
	for _, res := range m.GetResources() {
		r.bodies[res.GetName()] = res.GetResource().GetValue()
	}
	return r, nil
}

// node is how a client introduces itself.
func (c *client) node() *corev3.Node {
	if c == nil {
		return nil
	}
	return &corev3.Node{Id: c.id, Cluster: c.key, UserAgentName: "xdsrelay demo: " + c.kind.name}
}

func detail(err error) *rpcstatus.Status {
	if err == nil {
		return nil
	}
	return &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: err.Error()}
}
