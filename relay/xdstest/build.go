package xdstest

import (
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/relay/xdsclient"
)

// Any packs a message, with fields in a fixed order, so that equal messages
// give equal bytes. It panics on a message that cannot be marshalled, which
// only a broken test can make.
func Any(m proto.Message) *anypb.Any {
	a := &anypb.Any{}
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(fmt.Sprintf("xdstest: marshal %T: %v", m, err))
	}
	return a
}

// TypeOf is the type URL of a message.
func TypeOf(m proto.Message) string {
	return typePrefix + string(m.ProtoReflect().Descriptor().FullName())
}

// NameOf is the name that a resource carries in itself: its first field, for
// all types that have one (A2). VirtualHost and LbEndpoint are named by their
// envelope instead.
func NameOf(m proto.Message) string {
	r := m.ProtoReflect()
	if fd := r.Descriptor().Fields().ByNumber(1); fd != nil && fd.Kind().String() == "string" && !fd.IsList() {
		return r.Get(fd).String()
	}
	return ""
}

// Node is a client's identity as far as most tests need one.
func Node(id, cluster string) *corev3.Node {
	return &corev3.Node{
		Id:            id,
		Cluster:       cluster,
		Locality:      &corev3.Locality{Region: "test-region", Zone: "test-zone"},
		UserAgentName: "xdstest",
	}
}

// viaADS is the config source of everything that is found on the same stream.
func viaADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}

// Cluster is an EDS cluster over ADS whose endpoints go by the cluster's name.
// connectTimeout is the knob to turn for a changed cluster.
func Cluster(name string, connectTimeout time.Duration) *clusterv3.Cluster {
	return ClusterWithService(name, "", connectTimeout)
}

// ClusterWithService is a Cluster whose endpoints go by another name ("" means
// the cluster's own).
func ClusterWithService(name, edsService string, connectTimeout time.Duration) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ConnectTimeout:       durationpb.New(connectTimeout),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: viaADS(), ServiceName: edsService},
		LbPolicy:             clusterv3.Cluster_ROUND_ROBIN,
	}
}

// Endpoints is a ClusterLoadAssignment with all addresses ("host:port") in one
// locality. It panics on an address that is none.
func Endpoints(cluster string, addrs ...string) *endpointv3.ClusterLoadAssignment {
	group := &endpointv3.LocalityLbEndpoints{
		Locality:            &corev3.Locality{Region: "test-region", Zone: "test-zone", SubZone: "test-subzone"},
		LoadBalancingWeight: wrapperspb.UInt32(1),
	}
	for _, a := range addrs {
		group.LbEndpoints = append(group.LbEndpoints, LbEndpoint(a))
	}
	return &endpointv3.ClusterLoadAssignment{
		ClusterName: cluster,
		Endpoints:   []*endpointv3.LocalityLbEndpoints{group},
	}
}

// LbEndpoint is one healthy endpoint at "host:port".
func LbEndpoint(addr string) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{
		HealthStatus: corev3.HealthStatus_HEALTHY,
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: socketAddress(addr),
		}},
	}
}

// httpManager is the HTTP filter that looks its routes up by name over ADS.
func httpManager(routeConfig string) *anypb.Any {
	return Any(&hcmv3.HttpConnectionManager{
		StatPrefix: "ingress",
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			ConfigSource: viaADS(), RouteConfigName: routeConfig,
		}},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: Any(&routerv3.Router{})},
		}},
	})
}

// Listener is an Envoy listener on addr ("host:port") that takes its routes
// from RDS.
func Listener(name, addr, routeConfig string) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name:    name,
		Address: socketAddress(addr),
		FilterChains: []*listenerv3.FilterChain{{
			Filters: []*listenerv3.Filter{{
				Name:       "envoy.filters.network.http_connection_manager",
				ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: httpManager(routeConfig)},
			}},
		}},
	}
}

// APIListener is the listener that a gRPC client resolves: its name is the
// target's name.
func APIListener(name, routeConfig string) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name:        name,
		ApiListener: &listenerv3.ApiListener{ApiListener: httpManager(routeConfig)},
	}
}

// Route sends every path of every host to one cluster.
func Route(name, cluster string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name:         name,
		VirtualHosts: []*routev3.VirtualHost{VirtualHost("all", cluster, "*")},
	}
}

// VirtualHost sends every path of the domains to one cluster. As a resource of
// its own (VHDS) it is named by its envelope, "<route configuration>/<host>".
func VirtualHost(name, cluster string, domains ...string) *routev3.VirtualHost {
	return &routev3.VirtualHost{
		Name:    name,
		Domains: domains,
		Routes: []*routev3.Route{{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: ""}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{
				ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
			}},
		}},
	}
}

// ScopedRoute leads requests with the given scope key to a route configuration.
func ScopedRoute(name, routeConfig, key string) *routev3.ScopedRouteConfiguration {
	return &routev3.ScopedRouteConfiguration{
		Name:                   name,
		RouteConfigurationName: routeConfig,
		Key: &routev3.ScopedRouteConfiguration_Key{Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{{
			Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: key},
		}}},
	}
}

// Secret is a certificate with the given inline contents, which need not be
// valid PEM as long as no client uses them.
func Secret(name, certificate, key string) *tlsv3.Secret {
	inline := func(s string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
	}
	return &tlsv3.Secret{
		Name: name,
		Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: inline(certificate), PrivateKey: inline(key),
		}},
	}
}

// Runtime is a runtime layer of numbers.
func Runtime(name string, values map[string]float64) *runtimev3.Runtime {
	layer := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for k, v := range values {
		layer.Fields[k] = structpb.NewNumberValue(v)
	}
	return &runtimev3.Runtime{Name: name, Layer: layer}
}

// Extension is a named extension configuration.
func Extension(name string, config proto.Message) *corev3.TypedExtensionConfig {
	return &corev3.TypedExtensionConfig{Name: name, TypedConfig: Any(config)}
}

// Named is a message under a name that is not in its body, as VirtualHost and
// LbEndpoint have it. It stands where a resource is expected.
type Named struct {
	proto.Message
	Name string
}

// nameAndBody takes a resource apart, whether or not it is a Named.
func nameAndBody(m proto.Message) (string, *anypb.Any) {
	switch m := m.(type) {
	case Named:
		return m.Name, Any(m.Message)
	case *anypb.Any: // already packed, perhaps on purpose not decodable
		return xdsclient.NameInBody(m), m
	default:
		return NameOf(m), Any(m)
	}
}
