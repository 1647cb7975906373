package fielddiff_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/relay/fielddiff"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
)

func pack(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func res(t testing.TB, m proto.Message) *resource.Resource {
	t.Helper()
	b, err := proto.Marshal(pack(t, m))
	if err != nil {
		t.Fatal(err)
	}
	return resource.New(resource.Resource{Name: "r", Body: b})
}

func lines(d fielddiff.Diff) (out []string) {
	for _, f := range d.Fields {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s -> %s", f.Path, f.Change, f.Old, f.New)))
	}
	if d.Omitted > 0 {
		out = append(out, fmt.Sprint("omitted ", d.Omitted))
	}
	if d.Problem != "" {
		out = append(out, d.Problem)
	}
	return out
}

func check(t *testing.T, name string, from, to *resource.Resource, want ...string) {
	t.Helper()
	if got := lines(fielddiff.Of(from, to, 100)); !slices.Equal(got, want) {
		t.Errorf("%s:\n got  %q\n want %q", name, got, want)
	}
}

func socket(host string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port}}}}
}

func endpoint(host string, weight uint32) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{
		HostIdentifier:      &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: socket(host, 80)}},
		LoadBalancingWeight: wrapperspb.UInt32(weight),
	}
}

func endpoints(eps ...*endpointv3.LbEndpoint) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{ClusterName: "c", Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: eps}}}
}

func labels(name, value string) *corev3.Metadata {
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.lb": {Fields: map[string]*structpb.Value{name: structpb.NewStringValue(value)}}}}
}

// TestOf holds what differs and where, for the kinds of fields.
func TestOf(t *testing.T) {
	cluster := func(change func(*clusterv3.Cluster)) *resource.Resource {
		c := &clusterv3.Cluster{Name: "c", ConnectTimeout: durationpb.New(1e9)}
		change(c)
		return res(t, c)
	}
	none := cluster(func(*clusterv3.Cluster) {})
	check(t, "equal", none, none)
	check(t, "scalar, enum, duration", none, cluster(func(c *clusterv3.Cluster) {
		c.ConnectTimeout, c.AltStatName, c.LbPolicy = durationpb.New(25e8), "alt", clusterv3.Cluster_RANDOM
	}), `altStatName changed "" -> "alt"`, `connectTimeout changed "1s" -> "2.500s"`, `lbPolicy changed ROUND_ROBIN -> RANDOM`)
	check(t, "presence", none, cluster(func(c *clusterv3.Cluster) {
		c.ConnectTimeout = nil
		c.PerConnectionBufferLimitBytes = wrapperspb.UInt32(7)
	}),
		`connectTimeout removed "1s" ->`, `perConnectionBufferLimitBytes added  -> 7`)
	check(t, "label", cluster(func(c *clusterv3.Cluster) { c.Metadata = labels("zone", "a") }), cluster(func(c *clusterv3.Cluster) { c.Metadata = labels("zone", "b") }),
		`metadata.filterMetadata["envoy.lb"]["zone"] changed "a" -> "b"`)
	check(t, "map keys", cluster(func(c *clusterv3.Cluster) { c.Metadata = labels("zone", "a") }), cluster(func(c *clusterv3.Cluster) { c.Metadata = labels("rack", "a") }),
		`metadata.filterMetadata["envoy.lb"]["rack"] added  -> "a"`, `metadata.filterMetadata["envoy.lb"]["zone"] removed "a" ->`)
	check(t, "new resource", nil, none, `name added  -> "c"`, `connectTimeout added  -> "1s"`)
	check(t, "removed resource", none, nil, `name removed "c" ->`, `connectTimeout removed "1s" ->`)
	check(t, "nothing", nil, nil)
	check(t, "other type", none, res(t, &routev3.RouteConfiguration{Name: "c"}),
		` changed {"@type":"type.googleapis.com/envoy.config.cluster.v3.Cluster","name":"c","connectTimeout":"1s"} -> {"@type":"type.googleapis.com/envoy.config.route.v3.RouteConfiguration","name":"c"}`[1:])
	unreadable := resource.New(resource.Resource{Name: "r", Body: []byte("\xff")})
	if d := fielddiff.Of(none, unreadable, 5); d.Problem == "" || len(d.Fields) > 0 {
		t.Errorf("unreadable: %+v", d)
	}
}

// TestLists holds how elements are matched: an inserted element is one difference.
func TestLists(t *testing.T) {
	a, b, c := endpoint("10.0.0.1", 1), endpoint("10.0.0.2", 1), endpoint("10.0.0.3", 1)
	const at = "endpoints[0].lbEndpoints"
	check(t, "inserted", res(t, endpoints(b, c)), res(t, endpoints(a, b, c)),
		at+`[0] added  -> {"endpoint":{"address":{"socketAddress":{"address":"10.0.0.1","portValue":80}}},"loadBalancingWeight":1}`)
	check(t, "removed", res(t, endpoints(a, b)), res(t, endpoints(b)),
		at+`[0] removed {"endpoint":{"address":{"socketAddress":{"address":"10.0.0.1","portValue":80}}},"loadBalancingWeight":1} ->`)
	check(t, "by address", res(t, endpoints(a, b)), res(t, endpoints(c, endpoint("10.0.0.1", 9), b)),
		at+`[1].loadBalancingWeight changed 1 -> 9`, at+`[0] added  -> {"endpoint":{"address":{"socketAddress":{"address":"10.0.0.3","portValue":80}}},"loadBalancingWeight":1}`)
	check(t, "reordered", res(t, endpoints(a, b)), res(t, endpoints(b, a)), at+` reordered  ->`)
	hosts := func(names ...string) *resource.Resource {
		return res(t, &routev3.RouteConfiguration{Name: "r", VirtualHosts: []*routev3.VirtualHost{{Name: "h", Domains: names}}})
	}
	check(t, "texts", hosts("a", "b"), hosts("c", "a"), `virtualHosts[0].domains[1] removed "b" ->`, `virtualHosts[0].domains[0] added  -> "c"`)
	check(t, "text between", hosts("a", "b", "c"), hosts("a", "x", "c"), `virtualHosts[0].domains[1] changed "b" -> "x"`)
}

// TestSecrets holds that secrets are named where they differ, and never shown.
func TestSecrets(t *testing.T) {
	const mark = "CANARY7"
	inline := func(key string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: key}}
	}
	tls := func(key string) *tlsv3.CommonTlsContext {
		return &tlsv3.CommonTlsContext{TlsCertificates: []*tlsv3.TlsCertificate{{PrivateKey: inline(key), Password: inline("p")}}}
	}
	listener := func(key, stat string) *resource.Resource {
		socket := &corev3.TransportSocket{Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(t, &tlsv3.DownstreamTlsContext{CommonTlsContext: tls(key)})}}
		return res(t, &listenerv3.Listener{Name: "l", StatPrefix: stat, FilterChains: []*listenerv3.FilterChain{{TransportSocket: socket}}})
	}
	check(t, "private key", listener(mark+"a", "x"), listener(mark+"b", "y"),
		`statPrefix changed "x" -> "y"`, `filterChains[0].transportSocket.typedConfig.commonTlsContext.tlsCertificates[0].privateKey.inlineString hidden  ->`)
	secret := func(key string) *resource.Resource {
		return res(t, &tlsv3.Secret{Name: "s", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{PrivateKey: inline(key)}}})
	}
	check(t, "SDS", secret(mark+"a"), secret(mark+"b"), `tlsCertificate.privateKey hidden  ->`)
	for name, d := range map[string]fielddiff.Diff{
		"added":   fielddiff.Of(nil, secret(mark), 10),
		"removed": fielddiff.Of(listener(mark, ""), nil, 10),
		"label":   fielddiff.Of(res(t, &clusterv3.Cluster{Metadata: labels("password", mark+"a")}), res(t, &clusterv3.Cluster{Metadata: labels("password", mark+"b")}), 10),
		"header": fielddiff.Of(res(t, &routev3.Route{RequestHeadersToAdd: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "authorization", Value: mark}}}}),
			res(t, &routev3.Route{RequestHeadersToAdd: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "authorization", Value: mark + "b"}}}}), 10),
	} {
		b, err := json.Marshal(d)
		if err != nil || strings.Contains(string(b), mark) || len(d.Fields) == 0 {
			t.Errorf("%s: %s, %v", name, b, err)
		}
	}
	unknown := func(value string) *resource.Resource {
		b, err := proto.Marshal(&anypb.Any{TypeUrl: "type.googleapis.com/acme.Unknown", Value: []byte(value)})
		if err != nil {
			t.Fatal(err)
		}
		return resource.New(resource.Resource{Name: "r", Body: b})
	}
	check(t, "unknown type", unknown(mark+"a"), unknown(mark+"b"), `hidden  ->`)
}

// TestEncoding holds that a control plane which encodes the same message in another way is seen.
func TestEncoding(t *testing.T) {
	one, two := pack(t, &clusterv3.Cluster{Name: "c"}), pack(t, &clusterv3.Cluster{AltStatName: "a"})
	joined := func(values ...[]byte) *resource.Resource {
		b, err := proto.Marshal(&anypb.Any{TypeUrl: one.TypeUrl, Value: slices.Concat(values...)})
		if err != nil {
			t.Fatal(err)
		}
		return resource.New(resource.Resource{Name: "r", Body: b})
	}
	check(t, "order of fields", joined(one.Value, two.Value), joined(two.Value, one.Value), `encoding  ->`)
}

// TestEnvelope holds that what is around a resource is compared, too.
func TestEnvelope(t *testing.T) {
	wrapped := func(zone string) *resource.Resource {
		extra, err := proto.Marshal(&discoveryv3.Resource{Metadata: labels("zone", zone)})
		if err != nil {
			t.Fatal(err)
		}
		return resource.New(resource.Resource{Name: "r", Body: res(t, &clusterv3.Cluster{}).Body, Extra: extra})
	}
	check(t, "metadata", wrapped("a"), wrapped("b"), `envelope.metadata.filterMetadata["envoy.lb"]["zone"] changed "a" -> "b"`)
}

// TestBounded holds that the number and the length of what is returned is bounded.
func TestBounded(t *testing.T) {
	many := &clusterv3.Cluster{Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{}}}
	for i := range 1000 {
		many.Metadata.FilterMetadata[fmt.Sprint(i, strings.Repeat("é", 5000))] = &structpb.Struct{Fields: map[string]*structpb.Value{strings.Repeat("x", 5000): structpb.NewStringValue(strings.Repeat("y", 5000))}}
	}
	d := fielddiff.Of(res(t, &clusterv3.Cluster{Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"a": nil}}}), res(t, many), 7)
	b, err := json.Marshal(d)
	if err != nil || len(d.Fields) != 7 || d.Omitted != 994 || len(b) > 7*1000 {
		t.Errorf("%d differences, %d omitted, %d bytes, %v", len(d.Fields), d.Omitted, len(b), err)
	}
}

// FuzzOf compares whatever control planes may send.
func FuzzOf(f *testing.F) {
	f.Add(res(f, endpoints(endpoint("a", 1))).Body, res(f, endpoints(endpoint("b", 1))).Body)
	f.Add(res(f, &clusterv3.Cluster{Metadata: labels("password", "a")}).Body, res(f, &clusterv3.Cluster{Metadata: labels("zone", "a")}).Body)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		from, to := resource.New(resource.Resource{Name: "r", Body: a}), resource.New(resource.Resource{Name: "r", Body: b})
		d := fielddiff.Of(from, to, 20)
		if len(d.Fields) > 20 {
			t.Errorf("%d differences", len(d.Fields))
		}
		if same := fielddiff.Of(from, from, 20); len(same.Fields) > 0 {
			t.Errorf("differs from itself: %+v", same)
		}
		shownA, errA := redact.JSON(a)
		shownB, errB := redact.JSON(b)
		if errA == nil && errB == nil && string(shownA) != string(shownB) && len(d.Fields) == 0 && d.Problem == "" {
			t.Errorf("no difference between %s and %s", shownA, shownB)
		}
	})
}
