package content

import (
	"fmt"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Message is resource i of a type in key k, as of a stamp. It is nil for types
// that there are not. Equal arguments give equal bytes.
func (s *Spec) Message(typeURL string, k, i int, stamp Stamp) proto.Message {
	k = s.Source(k)
	name, text := Name(typeURL, k, i), string(AppendStamp(nil, stamp))
	switch typeURL {
	case ClusterURL:
		c := cluster(name)
		pad(c, &c.AltStatName, text, s.Size)
		return c
	case EndpointURL:
		a := assignment(name)
		pad(a, &a.Endpoints[0].LbEndpoints[0].GetEndpoint().Hostname, text, s.EndpointSize)
		return a
	case ListenerURL:
		return listener(name, Name(RouteURL, k, i), text)
	case RouteURL:
		return route(name, Name(ClusterURL, k, i%s.Clusters), text)
	}
	return nil
}

// Resource is what [Spec.Message] gives, packed as responses carry it. It panics
// for types that there are not.
func (s *Spec) Resource(typeURL string, k, i int, stamp Stamp) *anypb.Any {
	m := s.Message(typeURL, k, i, stamp)
	if m == nil {
		panic("content: there are no resources of " + typeURL)
	}
	return packed(m)
}

func packed(m proto.Message) *anypb.Any {
	a := &anypb.Any{}
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(fmt.Sprintf("content: %T: %v", m, err)) // a message that we built ourselves
	}
	return a
}

// pad fills a field of a message with a text and as much as makes the message
// as large as wanted. Longer lengths take more bytes, hence the second step.
func pad(m proto.Message, field *string, text string, size int) {
	*field = text
	missing := size - proto.Size(m)
	if missing <= 0 {
		return
	}
	*field = text + strings.Repeat("x", missing)
	if over := proto.Size(m) - size; over > 0 {
		*field = (*field)[:len(*field)-min(over, missing)]
	}
}

func viaADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}

func cluster(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ConnectTimeout:       durationpb.New(time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: viaADS()},
	}
}

func assignment(name string) *endpointv3.ClusterLoadAssignment {
	endpoints := make([]*endpointv3.LbEndpoint, 2)
	for i := range endpoints {
		endpoints[i] = &endpointv3.LbEndpoint{
			HealthStatus: corev3.HealthStatus_HEALTHY,
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
				Address: socketAddress(fmt.Sprintf("10.0.0.%d", i+1), 8080),
			}},
		}
	}
	return &endpointv3.ClusterLoadAssignment{
		ClusterName: name,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{
			Locality: &corev3.Locality{Region: "region", Zone: "zone"}, LbEndpoints: endpoints,
		}},
	}
}

func listener(name, routes, stamp string) *listenerv3.Listener {
	manager := packed(&hcmv3.HttpConnectionManager{
		StatPrefix: "ingress",
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			ConfigSource: viaADS(), RouteConfigName: routes,
		}},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&routerv3.Router{})},
		}},
	})
	return &listenerv3.Listener{
		Name:       name,
		StatPrefix: stamp,
		Address:    socketAddress("127.0.0.1", 8080),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager},
		}}}},
	}
}

func route(name, to, stamp string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name: name,
		VirtualHosts: []*routev3.VirtualHost{{
			Name:    stamp,
			Domains: []string{"*"},
			Routes: []*routev3.Route{{
				Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{
					ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: to},
				}},
			}},
		}},
	}
}

func socketAddress(ip string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: ip, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
