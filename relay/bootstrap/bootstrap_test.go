package bootstrap

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/goccy/go-yaml"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// all are options of every kind, and named apart.
func all() map[string]Options {
	plain := Options{Addresses: []string{"relay.example:18000"}, NodeID: "n-1", Cluster: "shop"}
	with := func(change func(*Options)) Options {
		o := plain
		change(&o)
		return o
	}
	return map[string]Options{
		"plain":     plain,
		"addresses": with(func(o *Options) { o.Addresses = []string{"a.example:18000", "[::1]:18001", "10.0.0.1:1"} }),
		"locality":  with(func(o *Options) { o.Locality = Locality{"eu", "eu-1", "rack: 7"} }),
		"awkward":   with(func(o *Options) { o.NodeID, o.Cluster = "a\"b: #\n- {c}", "no" }),
		"tls":       with(func(o *Options) { o.TLS.On = true }),
		"authority": with(func(o *Options) { o.TLS.CAFile = "/etc/xds/ca.crt" }),
		"mutual": with(func(o *Options) {
			o.TLS = TLS{CAFile: "/etc/xds/ca.crt", CertFile: "/etc/xds/tls.crt", KeyFile: "/etc/xds/tls.key"}
		}),
	}
}

// TestEnvoy: a bootstrap holds only fields that an Envoy knows, with values that it
// takes, and says who the client is and where its relay.
func TestEnvoy(t *testing.T) {
	cases := all()
	named := cases["mutual"]
	named.TLS.ServerName = "other.example"
	cases["server name"] = named
	sotw := cases["plain"]
	sotw.SotW = true
	cases["sotw"] = sotw
	address := cases["mutual"]
	address.Addresses = []string{"10.0.0.1:18000"}
	cases["tls to an address"] = address
	for name, o := range cases {
		t.Run(name, func(t *testing.T) {
			b := decodeEnvoy(t, o)
			if b.Node.Id != o.NodeID || b.Node.Cluster != o.Cluster || b.Node.GetLocality().GetSubZone() != o.Locality.SubZone {
				t.Errorf("node %v", b.Node)
			}
			if got := b.DynamicResources.AdsConfig.ApiType.String(); (got == "GRPC") != o.SotW {
				t.Errorf("api type %s", got)
			}
			cluster := b.StaticResources.Clusters[0]
			if cluster.Name != b.DynamicResources.AdsConfig.GrpcServices[0].GetEnvoyGrpc().ClusterName {
				t.Errorf("the stream goes to a cluster other than %s", cluster.Name)
			}
			if got := len(cluster.LoadAssignment.Endpoints[0].LbEndpoints); got != len(o.Addresses) {
				t.Errorf("%d addresses", got)
			}
			if (cluster.TransportSocket != nil) != o.TLS.used() {
				t.Fatalf("transport socket %v", cluster.TransportSocket)
			}
			if o.TLS.used() {
				checkEnvoyTLS(t, o, cluster.TransportSocket.GetTypedConfig().GetValue)
			}
		})
	}
}

// decodeEnvoy reads a bootstrap as strictly as an Envoy.
func decodeEnvoy(t *testing.T, o Options) *bootstrapv3.Bootstrap {
	t.Helper()
	text, err := Envoy(o)
	if err != nil {
		t.Fatal(err)
	}
	js, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	b := &bootstrapv3.Bootstrap{}
	if err := protojson.Unmarshal(js, b); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if err := b.ValidateAll(); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return b
}

// TestEnvoyVerifiesEachRelay: with TLS an Envoy verifies each of several relays by its own
// name, and sends it that name, unless one name is for all.
func TestEnvoyVerifiesEachRelay(t *testing.T) {
	o := all()["mutual"]
	o.Addresses = []string{"a.example:18000", "b.example:18000", "a.example:18001", "10.0.0.1:18000", "b.example:18002"}
	for _, name := range []string{"", "all.example"} {
		o.TLS.ServerName = name
		cluster := decodeEnvoy(t, o).StaticResources.Clusters[0]
		endpoints := cluster.LoadAssignment.Endpoints[0].LbEndpoints
		if len(endpoints) != len(o.Addresses) {
			t.Fatalf("%d endpoints", len(endpoints))
		}
		if name != "" && len(cluster.TransportSocketMatches) > 0 {
			t.Errorf("one name for all: %v", cluster.TransportSocketMatches)
		}
		for _, e := range endpoints {
			host := e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()
			socket := cluster.TransportSocket
			for _, m := range cluster.TransportSocketMatches { // the first that matches, as an Envoy does
				if proto.Equal(m.Match, e.GetMetadata().GetFilterMetadata()["envoy.transport_socket_match"]) {
					socket = m.TransportSocket
					break
				}
			}
			tls := &tlsv3.UpstreamTlsContext{}
			if err := proto.Unmarshal(socket.GetTypedConfig().GetValue(), tls); err != nil {
				t.Fatal(err)
			}
			want, sni := cmp.Or(name, host), cmp.Or(name, host)
			if want == "10.0.0.1" {
				sni = ""
			}
			if got := tls.CommonTlsContext.GetValidationContext().MatchTypedSubjectAltNames[0].Matcher.GetExact(); got != want || tls.Sni != sni {
				t.Errorf("%s is verified as %q with SNI %q, expected %q", host, got, tls.Sni, want)
			}
		}
	}
}

// checkEnvoyTLS: the authority and the name are always checked.
func checkEnvoyTLS(t *testing.T, o Options, value func() []byte) {
	t.Helper()
	socket := &tlsv3.UpstreamTlsContext{}
	if err := proto.Unmarshal(value(), socket); err != nil {
		t.Fatal(err)
	}
	common := socket.CommonTlsContext
	if common.GetValidationContext().GetTrustedCa().GetFilename() == "" || len(common.GetValidationContext().MatchTypedSubjectAltNames) != 1 {
		t.Errorf("it trusts %v", common.GetValidationContext())
	}
	name := common.GetValidationContext().MatchTypedSubjectAltNames[0].Matcher.GetExact()
	if want := o.TLS.ServerName; want != "" && (name != want || socket.Sni != want) {
		t.Errorf("name %q, SNI %q, want %q", name, socket.Sni, want)
	}
	if name == "10.0.0.1" && socket.Sni != "" {
		t.Errorf("an address as SNI: %q", socket.Sni)
	}
	if (len(common.TlsCertificates) == 1) != (o.TLS.CertFile != "") {
		t.Errorf("certificates %v", common.TlsCertificates)
	}
}

// TestGRPC: grpc-go takes the bootstraps.
func TestGRPC(t *testing.T) {
	for name, o := range all() {
		t.Run(name, func(t *testing.T) {
			text, err := GRPC(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := takes(t, text); err != nil {
				t.Errorf("%v:\n%s", err, text)
			}
			for _, a := range o.Addresses {
				if !strings.Contains(string(text), `"`+a+`"`) {
					t.Errorf("%s is not in\n%s", a, text)
				}
			}
			if got := strings.Contains(string(text), `"insecure"`); got == o.TLS.used() {
				t.Errorf("insecure: %v\n%s", got, text)
			}
		})
	}
	if takes(t, []byte(`{"xds_servers": [{"server_uri": "a:1"}]}`)) == nil {
		t.Error("grpc-go takes a server without credentials: it does not check")
	}
}

// TestGRPCFeatures: each server has the features that were asked for, and grpc-go takes
// the bootstrap, which also ignores features that it does not know.
func TestGRPCFeatures(t *testing.T) {
	o := all()["addresses"]
	o.Features = []string{"fail_on_data_errors", "resource_timer_is_transient_error"}
	text, err := GRPC(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := takes(t, text); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
	var got struct {
		Servers []struct {
			Features []string `json:"server_features"`
		} `json:"xds_servers"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Servers) != len(o.Addresses) {
		t.Fatalf("%d servers, want %d", len(got.Servers), len(o.Addresses))
	}
	for i, s := range got.Servers {
		if want := append([]string{"xds_v3"}, o.Features...); !slices.Equal(s.Features, want) {
			t.Errorf("server %d has the features %q, want %q", i, s.Features, want)
		}
	}
}

// takes lets grpc-go make an xDS client of a bootstrap.
func takes(t *testing.T, text []byte) error {
	t.Helper()
	builder, err := xds.NewXDSResolverWithConfigForTesting(text)
	if err != nil {
		return err
	}
	r, err := builder.Build(resolver.Target{URL: url.URL{Scheme: "xds", Path: "/svc"}}, deaf{}, resolver.BuildOptions{DialCreds: insecure.NewCredentials()})
	if err != nil {
		return err
	}
	r.Close()
	return nil
}

// deaf is a channel to which resolvers may say what they like.
type deaf struct{ resolver.ClientConn }

func (deaf) UpdateState(resolver.State) error { return nil }
func (deaf) ReportError(error)                {}

// TestMistakes: what a client could not use is no bootstrap.
func TestMistakes(t *testing.T) {
	type mistake struct {
		change func(*Options)
		want   string
	}
	both := map[string]mistake{
		"no address":       {func(o *Options) { o.Addresses = nil }, "is missing, expected at least"},
		"no port":          {func(o *Options) { o.Addresses = []string{"relay.example"} }, `"relay.example", expected host:port`},
		"port 0":           {func(o *Options) { o.Addresses = []string{"relay.example:0"} }, "expected host:port"},
		"no host":          {func(o *Options) { o.Addresses = []string{":18000"} }, "expected host:port"},
		"a URL":            {func(o *Options) { o.Addresses = []string{"https://relay.example:18000"} }, "expected host:port"},
		"no node":          {func(o *Options) { o.NodeID = "" }, "node ID of the client is missing"},
		"half a key pair":  {func(o *Options) { o.TLS.CertFile = "x" }, "only one of them"},
		"the other half":   {func(o *Options) { o.TLS.KeyFile = "x" }, "only one of them"},
		"gRPC server name": {func(o *Options) { o.TLS.ServerName = "x" }, "another name is not possible"},
		"gRPC feature":     {func(o *Options) { o.Features = []string{"fail_on_errors"} }, `"fail_on_errors", expected resource_timer_is_transient_error or fail_on_data_errors`},
		"gRPC variant":     {func(o *Options) { o.SotW = true }, "always use the state-of-the-world"},
	}
	for name, m := range both {
		o := all()["plain"]
		m.change(&o)
		if _, err := GRPC(o); err == nil || !strings.Contains(err.Error(), m.want) {
			t.Errorf("gRPC, %s: %v, want %q", name, err, m.want)
		}
		if strings.HasPrefix(name, "gRPC") {
			continue
		}
		if _, err := Envoy(o); err == nil || !strings.Contains(err.Error(), m.want) {
			t.Errorf("Envoy, %s: %v, want %q", name, err, m.want)
		}
	}
}
