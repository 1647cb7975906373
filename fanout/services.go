package fanout

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	// The descriptors of the services, for reflection.
	_ "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/extension/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"

	"xdsrelay/relay/resource"
)

// aggregated is the service with all types on one stream.
var aggregated = resource.Service{
	Name:   "envoy.service.discovery.v3.AggregatedDiscoveryService",
	File:   "envoy/service/discovery/v3/ads.proto",
	Stream: "StreamAggregatedResources",
	Delta:  "DeltaAggregatedResources",
}

// aggregatedV2 is the same for version 2 of the protocol.
var aggregatedV2 = resource.Service{
	Name:   "envoy.service.discovery.v2.AggregatedDiscoveryService",
	File:   "envoy/service/discovery/v2/ads.proto",
	Stream: aggregated.Stream,
	Delta:  aggregated.Delta,
}

// Register adds ADS, the per-type services of table A-1 and LRS to gs, under their proto names and
// with exactly their methods (A4). gs must have been made with [Server.ServerOptions].
func (s *Server) Register(gs *grpc.Server) {
	s.register(gs, &aggregated, resource.Known(), false)
	if s.cfg.V2 { // J1
		s.register(gs, &aggregatedV2, resource.KnownV2(), true)
	}
	gs.RegisterService(s.describeLoad(false), nil)
}

func (s *Server) register(gs *grpc.Server, ads *resource.Service, types []*resource.Type, v2 bool) {
	gs.RegisterService(s.describe(ads, nil, v2), nil)
	for _, t := range types {
		if t.Service != nil {
			gs.RegisterService(s.describe(t.Service, t, v2), nil)
		}
	}
}

// describe returns the gRPC description of a service of one version of the protocol: for one type,
// or for all if only is nil.
func (s *Server) describe(svc *resource.Service, only *resource.Type, v2 bool) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: svc.Name, Metadata: svc.File}
	stream := func(method string, delta bool) {
		if method == "" {
			return
		}
		d.Streams = append(d.Streams, grpc.StreamDesc{
			StreamName: method, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, gs grpc.ServerStream) error { return s.handle(gs, only, form{delta: delta, v2: v2}) },
		})
	}
	stream(svc.Stream, false)
	stream(svc.Delta, true)
	if svc.Fetch != "" {
		d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: svc.Fetch, Handler: fetchUnimplemented})
	}
	return d
}

// fetchUnimplemented answers the unary methods, which exist for REST only: a unary gRPC answer
// cannot say "not yet".
//
//nolint:revive // the order of the parameters is gRPC's
func fetchUnimplemented(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
	return nil, status.Error(codes.Unimplemented, "fetching is not served over gRPC: open a stream")
}
