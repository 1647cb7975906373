package fanout

import (
	"context"
	"math"
	"time"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
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

	"xdsrelay/fanout/conn"
	"xdsrelay/fanout/grpcgo"
	"xdsrelay/fanout/transport"
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

// ServerOptions returns the options for the gRPC server.
func (s *Server) ServerOptions() []grpc.ServerOption {
	return append(append(TransportOptions(), s.adapter().ServerOptions()...),
		grpc.Creds(conn.Credentials()),
		grpc.WriteBufferSize(conn.WriteBatch),
		grpc.ConnectionTimeout(s.cfg.HandshakeTimeout),
		grpc.MaxRecvMsgSize(s.cfg.MaxReceiveBytes),
		grpc.MaxSendMsgSize(math.MaxInt32))
}

// WriteBuffer is the size of a connection's write buffer on a reference server, in bytes, and of the
// largest one here, where few connections have one at a time; see [conn.WriteBatch]. The memory in
// docs/operate/sizing.md allows one for each client of a node with 1 GiB; see
// bench/results/write-buffer-2026-11-22.md.
const WriteBuffer = conn.MaxWrite

// TransportOptions returns the options that determine the cost of a connection. A reference server
// needs them for a fair comparison.
func TransportOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		// Clients ping every 10 s, with or without streams (B41). Fixed windows save the pings of
		// bandwidth estimation.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(KeepaliveParams()),
		grpc.StaticStreamWindowSize(64 << 10),
		grpc.StaticConnWindowSize(64 << 10),
		grpc.WriteBufferSize(WriteBuffer),
		grpc.ReadBufferSize(8 << 10),
	}
}

// KeepaliveParams returns the parameters that detect disconnected clients.
func KeepaliveParams() keepalive.ServerParameters {
	return keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 30 * time.Second}
}

// adapter returns what makes calls of grpc-go's streams.
func (s *Server) adapter() *grpcgo.Adapter {
	return grpcgo.New(grpcgo.Config{
		SendTimeout: s.cfg.SendTimeout,
		Unsent:      func() error { return errSendDeadline },
		Refused:     func(peer string, err error) { _ = s.refused(&caller{peer: peer}, err) },
		Logger:      s.cfg.Logger,
	})
}

// Register adds ADS, the per-type services of table A-1 and LRS to gs, under their proto names and
// with exactly their methods (A4). gs must have been made with [Server.ServerOptions].
func (s *Server) Register(gs *grpc.Server) {
	a := s.adapter()
	s.register(gs, a, &aggregated, resource.Known(), false)
	if s.cfg.V2 { // J1
		s.register(gs, a, &aggregatedV2, resource.KnownV2(), true)
	}
	gs.RegisterService(s.describeLoad(a, false), nil)
}

// RegisterPeers adds the services for other nodes of the tier to gs: ADS, only the incremental
// variant, and LRS. gs must have been made with [Server.ServerOptions], and must accept only nodes
// of the tier. Their requests are the sum of their clients, so they are not bounded.
func (s *Server) RegisterPeers(gs *grpc.Server) {
	a := s.adapter()
	gs.RegisterService(&grpc.ServiceDesc{
		ServiceName: aggregated.Name, Metadata: aggregated.File,
		Streams: []grpc.StreamDesc{a.Stream(aggregated.Delta, math.MaxInt32, s.openPeer)},
	}, nil)
	gs.RegisterService(s.describeLoad(a, true), nil)
}

func (s *Server) register(gs *grpc.Server, a *grpcgo.Adapter, ads *resource.Service, types []*resource.Type, v2 bool) {
	gs.RegisterService(s.describe(a, ads, nil, v2), nil)
	for _, t := range types {
		if t.Service != nil {
			gs.RegisterService(s.describe(a, t.Service, t, v2), nil)
		}
	}
}

// describe returns the gRPC description of a service of one version of the protocol: for one type,
// or for all if only is nil.
func (s *Server) describe(a *grpcgo.Adapter, svc *resource.Service, only *resource.Type, v2 bool) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: svc.Name, Metadata: svc.File}
	stream := func(method string, delta bool) {
		if method != "" {
			d.Streams = append(d.Streams, a.Stream(method, s.cfg.MaxReceiveBytes, s.opens(only, form{delta: delta, v2: v2})))
		}
	}
	stream(svc.Stream, false)
	stream(svc.Delta, true)
	if svc.Fetch != "" {
		d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: svc.Fetch, Handler: fetchUnimplemented})
	}
	return d
}

// describeLoad returns the gRPC description of LRS.
func (s *Server) describeLoad(a *grpcgo.Adapter, peers bool) *grpc.ServiceDesc {
	most := s.cfg.MaxReceiveBytes
	if peers {
		most = math.MaxInt32
	}
	open := func(c transport.Call) (transport.Client, error) { return s.openLoad(c, peers) }
	return &grpc.ServiceDesc{
		ServiceName: lrsv3.LoadReportingService_ServiceDesc.ServiceName,
		Metadata:    lrsv3.LoadReportingService_ServiceDesc.Metadata,
		Streams:     []grpc.StreamDesc{a.Stream("StreamLoadStats", most, open)},
	}
}

// fetchUnimplemented answers the unary methods, which exist for REST only: a unary gRPC answer
// cannot say "not yet".
//
//nolint:revive // the order of the parameters is gRPC's
func fetchUnimplemented(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
	return nil, status.Error(codes.Unimplemented, "fetching is not served over gRPC: open a stream")
}
