package xdsget

import (
	"cmp"
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	aggregatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/aggregate/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	// The types that may be inside of an Any.
	_ "xdsrelay/relay/resource/jsontypes"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdsclient"
)

// maxDepth is how deep messages are searched for references.
const maxDepth = 64

// finder collects the references in a resource.
type finder struct {
	ownStreams bool // resources may also name the server by its cluster
	found      []Ref
}

// decode returns the references in the body of a resource, or why it cannot be decoded. A type that
// this program does not know has none.
func decode(body *anypb.Any, ownStreams bool) ([]Ref, error) {
	t, err := protoregistry.GlobalTypes.FindMessageByURL(body.GetTypeUrl())
	if err != nil {
		return nil, nil //nolint:nilerr // accepted unread, as a relay does
	}
	m := t.New()
	if err := proto.Unmarshal(body.GetValue(), m.Interface()); err != nil {
		return nil, fmt.Errorf("the resource cannot be decoded: %w", err)
	}
	f := finder{ownStreams: ownStreams}
	f.search(m, 0)
	return f.found, nil
}

// search adds the references in a message.
func (f *finder) search(m protoreflect.Message, depth int) {
	if depth > maxDepth {
		return
	}
	if a, ok := m.Interface().(*anypb.Any); ok {
		if inner, err := a.UnmarshalNew(); err == nil {
			f.search(inner.ProtoReflect(), depth+1)
		}
		return
	}
	f.message(m.Interface())
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.IsMap():
			if field.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					f.search(v.Message(), depth+1)
					return true
				})
			}
		case field.Message() == nil:
		case field.IsList():
			for i := range v.List().Len() {
				f.search(v.List().Get(i).Message(), depth+1)
			}
		default:
			f.search(v.Message(), depth+1)
		}
		return true
	})
}

// message adds the references in the fields of one message.
func (f *finder) message(m proto.Message) {
	switch m := m.(type) {
	case *clusterv3.Cluster:
		if m.GetType() == clusterv3.Cluster_EDS {
			f.add(m.GetEdsClusterConfig().GetEdsConfig(), xdsclient.EndpointType, cmp.Or(m.GetEdsClusterConfig().GetServiceName(), m.GetName()))
		}
	case *aggregatev3.ClusterConfig:
		f.clusters(m.GetClusters()...)
	case *endpointv3.LedsClusterLocalityConfig:
		f.add(m.GetLedsConfig(), xdsclient.LbEndpointType, m.GetLedsCollectionName())
	case *tlsv3.SdsSecretConfig:
		f.add(m.GetSdsConfig(), xdsclient.SecretType, m.GetName())
	case *hcmv3.Rds:
		f.add(m.GetConfigSource(), xdsclient.RouteType, m.GetRouteConfigName())
	case *hcmv3.ScopedRds:
		f.add(m.GetScopedRdsConfigSource(), xdsclient.ScopedRouteType, cmp.Or(m.GetSrdsResourcesLocator(), xdsclient.Wildcard))
	case *hcmv3.HttpFilter:
		f.add(m.GetConfigDiscovery().GetConfigSource(), xdsclient.ExtensionConfigType, m.GetName())
	case *listenerv3.Filter:
		f.add(m.GetConfigDiscovery().GetConfigSource(), xdsclient.ExtensionConfigType, m.GetName())
	case *listenerv3.ListenerFilter:
		f.add(m.GetConfigDiscovery().GetConfigSource(), xdsclient.ExtensionConfigType, m.GetName())
	case *routev3.ScopedRouteConfiguration:
		f.found = append(f.found, Ref{xdsclient.RouteType, m.GetRouteConfigurationName()})
	case *routev3.RouteAction:
		f.clusters(m.GetCluster())
	case *routev3.WeightedCluster_ClusterWeight:
		f.clusters(m.GetName())
	case *routev3.RouteAction_RequestMirrorPolicy:
		f.clusters(m.GetCluster())
	case *tcpv3.TcpProxy:
		f.clusters(m.GetCluster())
	case *tcpv3.TcpProxy_WeightedCluster_ClusterWeight:
		f.clusters(m.GetName())
	}
}

// add adds a reference if the resource is on this server.
func (f *finder) add(source *corev3.ConfigSource, typeURL, name string) {
	switch source.GetConfigSourceSpecifier().(type) {
	case *corev3.ConfigSource_Ads, *corev3.ConfigSource_Self:
	case *corev3.ConfigSource_ApiConfigSource:
		if !f.ownStreams {
			return
		}
	default:
		return
	}
	if name != "" {
		f.found = append(f.found, Ref{typeURL, resource.Canonical(name)})
	}
}

func (f *finder) clusters(names ...string) {
	for _, name := range names {
		if name != "" {
			f.found = append(f.found, Ref{xdsclient.ClusterType, resource.Canonical(name)})
		}
	}
}
