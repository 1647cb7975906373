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

// aggregated is the service that carries all types on one stream.
var aggregated = resource.Service{
	Name:   "envoy.service.discovery.v3.AggregatedDiscoveryService",
	File:   "envoy/service/discovery/v3/ads.proto",
	Stream: "StreamAggregatedResources",
	Delta:  "DeltaAggregatedResources",
}

// Register adds ADS, the per-type services of table A-1 and LRS to gs, under their
// proto names and with just the methods that they have (A4). gs must have been
// made with [Server.ServerOptions].
func (s *Server) Register(gs *grpc.Server) {
	gs.RegisterService(s.describe(&aggregated, nil), nil)
	for _, t := range resource.Known() {
		if t.Service != nil {
			gs.RegisterService(s.describe(t.Service, t), nil)
		}
	}
	gs.RegisterService(s.describeLoad(), nil)
}

// describe returns the gRPC description of a service: for one type, or for all
// where only is nil.
func (s *Server) describe(svc *resource.Service, only *resource.Type) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: svc.Name, Metadata: svc.File}
	stream := func(method string, delta bool) {
		if method == "" {
			return
		}
		d.Streams = append(d.Streams, grpc.StreamDesc{
			StreamName: method, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, gs grpc.ServerStream) error { return s.handle(gs, only, delta) },
		})
	}
	stream(svc.Stream, false)
	stream(svc.Delta, true)
	if svc.Fetch != "" {
		d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: svc.Fetch, Handler: fetchUnimplemented})
	}
	return d
}

// fetchUnimplemented answers the unary methods, which exist for REST only: a
// unary gRPC answer could not say "not yet".
//
//nolint:revive // the order of the parameters is gRPC's
func fetchUnimplemented(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
	return nil, status.Error(codes.Unimplemented, "fetching is not served over gRPC: open a stream")
}
