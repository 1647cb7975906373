package origin

import (
	"context"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/stats"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
)

// statistics counts what gRPC tells it.
type statistics struct{ to *drive.Counter }

// ownType is the type of a stream of a type's own service, in its context.
type ownType struct{}

// TagRPC notes the type of a type's own service: requests need not say it.
func (s *statistics) TagRPC(ctx context.Context, rpc *stats.RPCTagInfo) context.Context {
	for service, typeURL := range map[string]string{
		"cluster": content.ClusterURL, "endpoint": content.EndpointURL,
		"listener": content.ListenerURL, "route": content.RouteURL,
	} {
		if strings.HasPrefix(rpc.FullMethodName, "/envoy.service."+service+".") {
			return context.WithValue(ctx, ownType{}, typeURL)
		}
	}
	return ctx
}

// HandleRPC counts streams and messages.
func (s *statistics) HandleRPC(ctx context.Context, event stats.RPCStats) {
	switch e := event.(type) {
	case *stats.Begin:
		s.to.Opened()
	case *stats.End:
		s.to.Closed()
	case *stats.InPayload:
		typeURL, rejection := "", (*rpcstatus.Status)(nil)
		switch r := e.Payload.(type) {
		case *discoveryv3.DiscoveryRequest:
			typeURL, rejection = r.GetTypeUrl(), r.GetErrorDetail()
		case *discoveryv3.DeltaDiscoveryRequest:
			typeURL, rejection = r.GetTypeUrl(), r.GetErrorDetail()
		}
		if typeURL == "" {
			typeURL, _ = ctx.Value(ownType{}).(string)
		}
		s.to.Request(typeURL, e.Length, rejection != nil)
		if rejection != nil {
			s.to.Rejected(rejection.GetMessage())
		}
	case *stats.OutPayload:
		switch r := e.Payload.(type) {
		case *discoveryv3.DiscoveryResponse:
			s.to.Responses(r.GetTypeUrl(), 1, e.Length)
		case *discoveryv3.DeltaDiscoveryResponse:
			s.to.Responses(r.GetTypeUrl(), 1, e.Length)
		}
	}
}

// TagConn is of no use here.
func (s *statistics) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn is of no use here.
func (s *statistics) HandleConn(context.Context, stats.ConnStats) {}
