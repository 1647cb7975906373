package xdsget

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	aggregatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/aggregate/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/xdsclient"
)

func pack(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var (
	ads   = &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{}}
	self  = &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Self{}}
	other = &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{}}
	file  = &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{}}
)

// TestReferences: the references in each kind of resource are found, and only those to the same server.
func TestReferences(t *testing.T) {
	eds := func(name, service string, source *corev3.ConfigSource) *clusterv3.Cluster {
		return &clusterv3.Cluster{
			Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: source, ServiceName: service},
		}
	}
	secret := func(name string, source *corev3.ConfigSource) *tlsv3.SdsSecretConfig {
		return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: source}
	}
	secured := &clusterv3.Cluster{Name: "c", TransportSocket: &corev3.TransportSocket{ConfigType: &corev3.TransportSocket_TypedConfig{
		TypedConfig: pack(t, &tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{secret("cert", ads), secret("static", nil), secret("agent", other)},
			ValidationContextType:          &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{ValidationContextSdsSecretConfig: secret("ca", self)},
		}}),
	}}}
	filter := func(m proto.Message) *listenerv3.Listener {
		return &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, m)}}}}}}
	}
	scoped := func(locator string) *listenerv3.Listener {
		return filter(&hcmv3.HttpConnectionManager{RouteSpecifier: &hcmv3.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &hcmv3.ScopedRoutes{
			ConfigSpecifier: &hcmv3.ScopedRoutes_ScopedRds{ScopedRds: &hcmv3.ScopedRds{ScopedRdsConfigSource: ads, SrdsResourcesLocator: locator}},
		}}})
	}
	discovery := &corev3.ExtensionConfigSource{ConfigSource: ads}
	extensions := filter(&hcmv3.HttpConnectionManager{HttpFilters: []*hcmv3.HttpFilter{{Name: "http", ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: discovery}}}})
	extensions.ListenerFilters = []*listenerv3.ListenerFilter{{Name: "listener", ConfigType: &listenerv3.ListenerFilter_ConfigDiscovery{ConfigDiscovery: discovery}}}
	extensions.DefaultFilterChain = &listenerv3.FilterChain{Filters: []*listenerv3.Filter{{Name: "network", ConfigType: &listenerv3.Filter_ConfigDiscovery{ConfigDiscovery: discovery}}}}
	routes := &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{Routes: []*routev3.Route{
		{Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier:      &routev3.RouteAction_Cluster{Cluster: "a"},
			RequestMirrorPolicies: []*routev3.RouteAction_RequestMirrorPolicy{{Cluster: "mirror"}},
		}}},
		{Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_WeightedClusters{
			WeightedClusters: &routev3.WeightedCluster{Clusters: []*routev3.WeightedCluster_ClusterWeight{{Name: "b"}, {Name: "c"}}},
		}}}},
	}}}}
	leds := &endpointv3.ClusterLoadAssignment{Endpoints: []*endpointv3.LocalityLbEndpoints{{LbConfig: &endpointv3.LocalityLbEndpoints_LedsClusterLocalityConfig{
		LedsClusterLocalityConfig: &endpointv3.LedsClusterLocalityConfig{LedsConfig: self, LedsCollectionName: "xdstp://x/envoy.config.endpoint.v3.LbEndpoint/a/*"},
	}}}}
	for _, tc := range []struct {
		m          proto.Message
		ownStreams bool
		want       string
	}{
		{eds("c", "", ads), false, "ClusterLoadAssignment/c"},
		{eds("c", "s", self), false, "ClusterLoadAssignment/s"},
		{eds("c", "s", other), false, ""},
		{eds("c", "s", other), true, "ClusterLoadAssignment/s"},
		{eds("c", "s", file), true, ""},
		{eds("c", "s", nil), true, ""},
		{&clusterv3.Cluster{Name: "static", EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads}}, false, ""},
		{secured, false, "Secret/ca Secret/cert"},
		{&clusterv3.Cluster{ClusterDiscoveryType: &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
			TypedConfig: pack(t, &aggregatev3.ClusterConfig{Clusters: []string{"x", "y"}}),
		}}}, false, "Cluster/x Cluster/y"},
		{filter(&hcmv3.HttpConnectionManager{RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: ads, RouteConfigName: "r"}}}), false, "RouteConfiguration/r"},
		{scoped(""), false, "ScopedRouteConfiguration/*"},
		{scoped("xdstp://x/envoy.config.route.v3.ScopedRouteConfiguration/*"), false, "ScopedRouteConfiguration/xdstp://x/envoy.config.route.v3.ScopedRouteConfiguration/*"},
		{extensions, false, "TypedExtensionConfig/http TypedExtensionConfig/listener TypedExtensionConfig/network"},
		{filter(&tcpv3.TcpProxy{ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: "t"}}), false, "Cluster/t"},
		{filter(&tcpv3.TcpProxy{ClusterSpecifier: &tcpv3.TcpProxy_WeightedClusters{WeightedClusters: &tcpv3.TcpProxy_WeightedCluster{
			Clusters: []*tcpv3.TcpProxy_WeightedCluster_ClusterWeight{{Name: "w"}},
		}}}), false, "Cluster/w"},
		{&routev3.ScopedRouteConfiguration{RouteConfigurationName: "r"}, false, "RouteConfiguration/r"},
		{routes, false, "Cluster/a Cluster/b Cluster/c Cluster/mirror"},
		{leds, false, "LbEndpoint/xdstp://x/envoy.config.endpoint.v3.LbEndpoint/a/*"},
	} {
		refs, err := decode(pack(t, tc.m), tc.ownStreams)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range refs {
			got = append(got, xdsclient.ShortType(r.TypeURL)+"/"+r.Name)
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != tc.want {
			t.Errorf("%s refers to %q, expected %q", tc.m, text, tc.want)
		}
	}
	if refs, err := decode(&anypb.Any{TypeUrl: "type.googleapis.com/acme.Unknown", Value: []byte{0xff}}, false); len(refs) > 0 || err != nil {
		t.Errorf("an unknown type: %v, %v", refs, err)
	}
}

// FuzzDecode: no bytes make the search for references fail or run on.
func FuzzDecode(f *testing.F) {
	for _, url := range []string{xdsclient.ClusterType, xdsclient.ListenerType, xdsclient.RouteType, xdsclient.SecretType, "type.googleapis.com/google.protobuf.Any"} {
		f.Add(url, []byte("\n\x01a"))
	}
	deep := &anypb.Any{}
	for range 200 {
		deep = pack(f, deep)
	}
	f.Add(deep.GetTypeUrl(), deep.GetValue())
	f.Fuzz(func(t *testing.T, url string, body []byte) {
		refs, err := decode(&anypb.Any{TypeUrl: url, Value: body}, true)
		for _, r := range refs {
			if err != nil || r.Name == "" || r.TypeURL == "" {
				t.Errorf("%v, %v", refs, err)
			}
		}
	})
}

// TestParseRef: the forms of a resource on the command line.
func TestParseRef(t *testing.T) {
	const eds = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	for text, want := range map[string]string{
		"CDS": "Cluster/*", "cds/a": "Cluster/a", "Cluster/a/b": "Cluster/a/b", "EDS/*": "ClusterLoadAssignment/*",
		eds: "ClusterLoadAssignment/*", eds + "/a/b": "ClusterLoadAssignment/a/b", "type.googleapis.com/acme.Thing/x": "Thing/x",
		"xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a?b=1&a=2": "ClusterLoadAssignment/xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a?a=2&b=1",
		"xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a/*":       "ClusterLoadAssignment/xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a/*",
		"EDS/xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a":     "ClusterLoadAssignment/xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a",
		"": "names no type", "FOO": "names no type", "/a": "names no type", "type.googleapis.com/": "names no type", "EDS/": "has no name", "xdstp://": "is no xdstp name",
		"type.googleapis.com/envoy.api.v2.Cluster": "is a type of xDS v2",
	} {
		r, err := ParseRef(text)
		if got := xdsclient.ShortType(r.TypeURL) + "/" + r.Name; err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %s, %v; expected %s", text, got, err, want)
		}
	}
}

// TestExplain: errors of connections have a kind and a text without the words of gRPC.
func TestExplain(t *testing.T) {
	unavailable := func(text string) error { return status.Error(codes.Unavailable, text) }
	dial := func(text string) error {
		return unavailable(`connection error: desc = "transport: Error while dialing: ` + text + `"`)
	}
	handshake := func(text string) error {
		return unavailable(`connection error: desc = "transport: authentication handshake failed: ` + text + `"`)
	}
	for _, tc := range []struct {
		err     error
		secured bool
		kind    Kind
		text    string
		final   bool
	}{
		{dial("dial tcp 127.0.0.1:1: connect: connection refused"), false, Refused, "cannot connect to a:1: connection refused", false},
		{dial("dial tcp: lookup x: no such host"), false, Unresolved, "cannot connect to a:1: no such host", false},
		{dial("dial tcp 10.0.0.1:1: i/o timeout"), false, Timeout, "cannot connect to a:1: no answer", false},
		{unavailable(`connection error: desc = "error reading server preface: EOF"`), false, NeedsTLS, "cannot connect to a:1: the server closed the connection: it may require TLS", false},
		{unavailable(`connection error: desc = "error reading server preface: http2: failed reading the frame payload: http2: frame too large"`), false, NeedsTLS, "cannot connect to a:1: the server does not accept plaintext gRPC: it may require TLS", true},
		{unavailable(`connection error: desc = "error reading server preface: http2: frame too large, note that the frame header looked like an HTTP/1.1 header"`), false, NotGRPC, "cannot connect to a:1: the server uses HTTP/1.1, not gRPC", true},
		{handshake("tls: first record does not look like a TLS handshake"), true, NoTLS, "cannot connect to a:1: the server does not use TLS", true},
		{handshake("TLS with a: see tls.ca_file: tls: failed to verify certificate: x509: certificate signed by unknown authority"), true, Authority, "cannot connect to a:1: the certificate of the server is from an authority that is not trusted here", true},
		{handshake("TLS with a: see tls.server_name: x509: certificate is valid for b, not a"), true, WrongName, "cannot connect to a:1: the certificate of the server is for another name: certificate is valid for b, not a", true},
		{unavailable("error reading from server: remote error: tls: certificate required"), true, NoCertificate, "cannot connect to a:1: the server requires a client certificate from an authority that it trusts", true},
		{unavailable("error reading from server: read tcp: connection reset by peer"), true, Other, "the server at a:1 ended the stream: UNAVAILABLE: error reading from server: read tcp: connection reset by peer", false},
		{status.Error(codes.PermissionDenied, "no rule"), false, Denied, "the server at a:1 ended the stream: PERMISSION_DENIED: no rule", true},
		{status.Error(codes.Canceled, "bye"), false, Other, "the server at a:1 ended the stream: CANCELLED: bye", false},
		{io.EOF, false, Closed, "the server at a:1 closed the stream", false},
		{errors.New("odd"), false, Other, "the server at a:1 ended the stream: UNKNOWN: odd", false},
	} {
		e := explain(tc.err, "a:1", tc.secured)
		if got := fmt.Sprintf("%s|%s|%t", e.Kind, e.Text, e.Final); got != fmt.Sprintf("%s|%s|%t", tc.kind, tc.text, tc.final) {
			t.Errorf("%v:\n%s, expected\n%s|%s|%t", tc.err, got, tc.kind, tc.text, tc.final)
		}
	}
}
