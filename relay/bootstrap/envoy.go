package bootstrap

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// The names by which an Envoy finds the relay and the settings of its connections.
const (
	relayCluster = "xdsrelay"
	httpOptions  = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	tlsSocket    = "envoy.transport_sockets.tls"
)

// Envoy returns the bootstrap of an Envoy that gets listeners and clusters, and what
// these name, from the relay over one stream, as YAML. Envoys spread themselves
// over the addresses. Their admin page is on loopback, port 9901.
func Envoy(o Options) ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	cluster, err := o.cluster()
	if err != nil {
		return nil, err
	}
	api := corev3.ApiConfigSource_DELTA_GRPC
	if o.SotW {
		api = corev3.ApiConfigSource_GRPC
	}
	ads := &corev3.ConfigSource{ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
	b := &bootstrapv3.Bootstrap{
		Node: &corev3.Node{Id: o.NodeID, Cluster: o.Cluster},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{
			AdsConfig: &corev3.ApiConfigSource{
				ApiType: api, TransportApiVersion: corev3.ApiVersion_V3, SetNodeOnFirstMessageOnly: true,
				GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: relayCluster}}}},
			},
			LdsConfig: ads,
			CdsConfig: proto.CloneOf(ads),
		},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{Clusters: []*clusterv3.Cluster{cluster}},
		Admin:           &bootstrapv3.Admin{Address: socketAddress("127.0.0.1", 9901)},
	}
	if l := o.Locality; l != (Locality{}) {
		b.Node.Locality = &corev3.Locality{Region: l.Region, Zone: l.Zone, SubZone: l.SubZone}
	}
	if err := b.ValidateAll(); err != nil {
		return nil, fmt.Errorf("bootstrap of an Envoy: %w", err)
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("bootstrap of an Envoy: %w", err)
	}
	return yaml.JSONToYAML(text)
}

// cluster is the relay as an Envoy sees it.
func (o Options) cluster() (*clusterv3.Cluster, error) {
	// A relay that has gone without a word has to be noticed: nothing may be on its way
	// for hours on a stream that is fine.
	options, err := anypb.New(&httpv3.HttpProtocolOptions{UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
			Http2ProtocolOptions: &corev3.Http2ProtocolOptions{ConnectionKeepalive: &corev3.KeepaliveSettings{
				Interval: durationpb.New(30 * time.Second), Timeout: durationpb.New(10 * time.Second),
			}},
		}},
	}})
	if err != nil {
		return nil, err
	}
	c := &clusterv3.Cluster{
		Name:                 relayCluster,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS},
		ConnectTimeout:       durationpb.New(5 * time.Second),
		LoadAssignment:       &endpointv3.ClusterLoadAssignment{ClusterName: relayCluster},

		TypedExtensionProtocolOptions: map[string]*anypb.Any{httpOptions: options},
	}
	group := &endpointv3.LocalityLbEndpoints{}
	for _, address := range o.Addresses {
		host, port, err := split(address)
		if err != nil {
			return nil, err
		}
		one := &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
			Endpoint: &endpointv3.Endpoint{Address: socketAddress(host, port)},
		}}
		if o.TLS.used() {
			if err := o.secure(c, one, host); err != nil {
				return nil, err
			}
		}
		group.LbEndpoints = append(group.LbEndpoints, one)
	}
	c.LoadAssignment.Endpoints = []*endpointv3.LocalityLbEndpoints{group}
	return c, nil
}

// matchKey is where the metadata of an endpoint selects its transport socket.
const matchKey = "envoy.transport_socket_match"

// secure adds TLS towards one endpoint of the cluster. Each relay is verified by its own
// name, so a host other than the first has a transport socket of its own.
func (o Options) secure(c *clusterv3.Cluster, one *endpointv3.LbEndpoint, host string) error {
	name := cmp.Or(o.TLS.ServerName, host)
	socket, err := o.transportSocket(name)
	switch {
	case err != nil:
		return err
	case c.TransportSocket == nil:
		c.TransportSocket = socket // of all endpoints that select no other
	}
	if proto.Equal(c.TransportSocket, socket) {
		return nil
	}
	match := &structpb.Struct{Fields: map[string]*structpb.Value{"relay": structpb.NewStringValue(name)}}
	one.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{matchKey: match}}
	known := func(m *clusterv3.Cluster_TransportSocketMatch) bool { return m.Name == name }
	if !slices.ContainsFunc(c.TransportSocketMatches, known) {
		c.TransportSocketMatches = append(c.TransportSocketMatches, &clusterv3.Cluster_TransportSocketMatch{Name: name, Match: proto.CloneOf(match), TransportSocket: socket})
	}
	return nil
}

// transportSocket is TLS towards a relay whose certificate is for name. An Envoy checks
// neither authority nor name by default, so the bootstrap requires both.
func (o Options) transportSocket(name string) (*corev3.TransportSocket, error) {
	t := o.TLS
	ca := t.CAFile
	if ca == "" {
		ca = systemRoots
	}
	san := &tlsv3.SubjectAltNameMatcher{SanType: tlsv3.SubjectAltNameMatcher_DNS, Matcher: exactly(name)}
	if net.ParseIP(name) != nil {
		san.SanType = tlsv3.SubjectAltNameMatcher_IP_ADDRESS
	}
	common := &tlsv3.CommonTlsContext{
		TlsParams: &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3},
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustedCa: file(ca), MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{san},
		}},
	}
	if t.CertFile != "" {
		common.TlsCertificates = []*tlsv3.TlsCertificate{{
			CertificateChain: file(t.CertFile), PrivateKey: file(t.KeyFile),
		}}
	}
	upstream := &tlsv3.UpstreamTlsContext{CommonTlsContext: common}
	if net.ParseIP(name) == nil {
		upstream.Sni = name // addresses are none (RFC 6066)
	}
	config, err := anypb.New(upstream)
	if err != nil {
		return nil, err
	}
	return &corev3.TransportSocket{Name: tlsSocket, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: config}}, nil
}

func exactly(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}}
}

func file(name string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: name}}
}

func socketAddress(host string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
