package redact_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	udpatypev1 "github.com/cncf/xds/go/udpa/type/v1"
	xdstypev3 "github.com/cncf/xds/go/xds/type/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/relay/redact"
)

func pack(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// shown is a resource as JSON that may be shown.
func shown(t *testing.T, m proto.Message) string {
	t.Helper()
	body, err := proto.Marshal(pack(t, m))
	if err != nil {
		t.Fatal(err)
	}
	out, err := redact.JSON(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func mustNot(t *testing.T, got string, secret, open []string) {
	t.Helper()
	for _, s := range secret {
		if strings.Contains(got, s) {
			t.Errorf("%q is shown: %s", s, got)
		}
	}
	for _, s := range open {
		if !strings.Contains(got, s) {
			t.Errorf("%q is missing: %s", s, got)
		}
	}
}

// TestSecret: of a secret its name stays, and what kind it is.
func TestSecret(t *testing.T) {
	got := shown(t, &tlsv3.Secret{Name: "server", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline("chain"), PrivateKey: inline("private"),
	}}})
	mustNot(t, got, []string{"chain", "private"}, []string{"server", "tlsCertificate"})
}

// TestNested: secrets go wherever they are in a resource, and what is around them
// stays.
func TestNested(t *testing.T) {
	metadata, err := structpb.NewStruct(map[string]any{
		"apiToken": "S1", "deep": []any{map[string]any{"db_password": 12345, "zone": "open1"}},
		"env": []any{map[string]any{"name": "MY_SECRET", "value": "S2"}, map[string]any{"name": "COLOUR", "value": "open2"}},
		"at":  "redis://u:S3@open3:6379", "raw": "-----BEGIN X-----S4-----END X-----",
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &clusterv3.Cluster{
		Name:     "shop",
		Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.lb": metadata}},
		TransportSocket: &corev3.TransportSocket{Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(t, &tlsv3.UpstreamTlsContext{
			Sni: "open4",
			CommonTlsContext: &tlsv3.CommonTlsContext{TlsCertificates: []*tlsv3.TlsCertificate{{
				CertificateChain: &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: "/open5"}},
				PrivateKey:       inline("S5"), Password: inline("S6"),
			}}},
		})}},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{
			"x": {TypeUrl: "type.googleapis.com/acme.Unknown", Value: []byte("S7")},
			"y": {TypeUrl: "type.googleapis.com/envoy.config.core.v3.Address", Value: []byte("\xffS8")},
		},
		HealthChecks: []*corev3.HealthCheck{{HealthChecker: &corev3.HealthCheck_HttpHealthCheck_{HttpHealthCheck: &corev3.HealthCheck_HttpHealthCheck{
			Path: "/open6", RequestHeadersToAdd: []*corev3.HeaderValueOption{
				{Header: &corev3.HeaderValue{Key: "Authorization", Value: "S9"}},
				{Header: &corev3.HeaderValue{Key: "X-Api-Key", RawValue: []byte("S10")}},
				{Header: &corev3.HeaderValue{Key: "Accept", Value: "open7"}},
			},
		}}}},
	}
	c.ProtoReflect().SetUnknown([]byte("\xfa\xff\x7f\x02S0"))
	before := proto.CloneOf(c)
	got := shown(t, c)
	mustNot(t, got, []string{"S1", "12345", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10", "S0"},
		[]string{"shop", "open1", "open2", "open3", "open4", "/open5", "/open6", "open7", "acme.Unknown", "2 bytes", redact.Mark})
	if !proto.Equal(c, before) {
		t.Error("the resource itself was changed")
	}
}

// TestUntouched: what holds no secret is the same bytes, also where it is packed.
func TestUntouched(t *testing.T) {
	a := pack(t, &clusterv3.Cluster{Name: "shop", AltStatName: "open"})
	before := proto.CloneOf(a)
	if new(redact.Redactor).Any(a) || !proto.Equal(a, before) {
		t.Errorf("changed to %v", a)
	}
}

// TestNode: K20: a Node may be shown without what its metadata holds of secrets.
func TestNode(t *testing.T) {
	n := &corev3.Node{}
	if err := prototext.Unmarshal([]byte(`id: "shop-1" metadata { fields { key: "istio_token" value { string_value: "S1" } } fields { key: "app" value { string_value: "shop" } } }`), n); err != nil {
		t.Fatal(err)
	}
	got := redact.Node(n)
	if f := got.GetMetadata().GetFields(); got.GetId() != "shop-1" || f["istio_token"].GetStringValue() != redact.Mark || f["app"].GetStringValue() != "shop" {
		t.Errorf("Node = %v", got)
	}
	if n.GetMetadata().GetFields()["istio_token"].GetStringValue() != "S1" {
		t.Error("the client's own Node was changed")
	}
	if redact.Node(nil) != nil {
		t.Error("no Node gives one")
	}
}

// TestSpeakable: no client keeps a Node from being shown as JSON by its metadata.
func TestSpeakable(t *testing.T) {
	n := &corev3.Node{Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
		"nan": structpb.NewNumberValue(math.NaN()), "inf": structpb.NewNumberValue(math.Inf(-1)), "none": {}, "nil": nil,
		"list": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{{}}}),
	}}}
	out, err := protojson.Marshal(redact.Node(n))
	if err != nil {
		t.Fatal(err)
	}
	mustNot(t, string(out), nil, []string{`"NaN"`, `"-Inf"`, "null"})
}

// TestDeep: what is nested too deep to be looked into is not shown.
func TestDeep(t *testing.T) {
	a := pack(t, inline("S1"))
	for range 100 {
		a = pack(t, a)
	}
	new(redact.Redactor).Any(a)
	if strings.Contains(string(a.GetValue()), "S1") {
		t.Error("what is nested 100 times is shown")
	}
}

func inline(s string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
}

// FuzzJSON: any resource is an error or JSON.
func FuzzJSON(f *testing.F) {
	f.Add([]byte{})
	b, _ := proto.Marshal(&anypb.Any{TypeUrl: "type.googleapis.com/envoy.config.core.v3.DataSource", Value: []byte("\x12\x02ab")})
	f.Add(b)
	f.Fuzz(func(t *testing.T, body []byte) {
		if out, err := redact.JSON(body); err == nil && !json.Valid(out) {
			t.Errorf("no JSON: %s", out)
		}
	})
}

// TestOpaque: what an extension is configured with has names only it knows, or none. So of
// texts and bytes only the size is shown, and of structs only the names, and what is a number
// or a truth value under a name that is not sensitive.
func TestOpaque(t *testing.T) {
	config, err := structpb.NewStruct(map[string]any{
		"seal": "S1", "list": []any{"S2", map[string]any{"deep": "S3"}}, "pin": 12345, "limit": 17, "on": true,
	})
	if err != nil {
		t.Fatal(err)
	}
	typed, err := structpb.NewStruct(map[string]any{"seal": "S4"})
	if err != nil {
		t.Fatal(err)
	}
	c := &clusterv3.Cluster{Name: "shop", TypedExtensionProtocolOptions: map[string]*anypb.Any{
		"text":   pack(t, wrapperspb.String("S5")),
		"bytes":  pack(t, wrapperspb.Bytes([]byte("S6"))),
		"struct": pack(t, config),
		"value":  pack(t, structpb.NewStringValue("S7")),
		"list":   pack(t, config.GetFields()["list"].GetListValue()),
		"xds":    pack(t, &xdstypev3.TypedStruct{TypeUrl: "type.googleapis.com/acme.Config", Value: typed}),
		"udpa":   pack(t, &udpatypev1.TypedStruct{TypeUrl: "type.googleapis.com/acme.Config", Value: typed}),
	}}
	mustNot(t, shown(t, c), []string{"S1", "S2", "S3", "S4", "S5", "S6", "S7", "12345"},
		[]string{"shop", "seal", "deep", "limit", "17", "true", "acme.Config", "google.protobuf.StringValue", "4 bytes"})
	for name, a := range c.GetTypedExtensionProtocolOptions() {
		if !new(redact.Redactor).Any(a) {
			t.Errorf("%s counts as without a secret", name)
		}
	}
	for name, a := range map[string]*anypb.Any{"no text": pack(t, wrapperspb.String("")), "a number": pack(t, wrapperspb.Int32(7)), "no fields": pack(t, &structpb.Struct{})} {
		if new(redact.Redactor).Any(a) {
			t.Errorf("%s counts as a secret", name)
		}
	}
}
