package redact_test

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
)

// TestHolds: a resource holds a secret where one is in its body or its envelope, and
// where that cannot be told.
func TestHolds(t *testing.T) {
	encoded := func(m proto.Message) []byte {
		t.Helper()
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	labels := func(name string) *corev3.Metadata {
		return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"m": {Fields: map[string]*structpb.Value{name: structpb.NewStringValue("x")}}}}
	}
	plain := encoded(pack(t, &clusterv3.Cluster{Name: "c", Metadata: labels("zone")}))
	unknown := pack(t, &clusterv3.Cluster{Name: "c"})
	unknown.TypeUrl = "type.googleapis.com/acme.Unknown"
	var r redact.Redactor
	for name, c := range map[string]struct {
		body, extra []byte
		want        bool
	}{
		"nothing":                 {nil, nil, false},
		"nothing secret":          {plain, encoded(&discoveryv3.Resource{Metadata: labels("zone")}), false},
		"in the body":             {encoded(pack(t, &clusterv3.Cluster{Name: "c", Metadata: labels("password")})), nil, true},
		"in the envelope":         {plain, encoded(&discoveryv3.Resource{Metadata: labels("password")}), true},
		"of an unknown type":      {encoded(unknown), nil, true},
		"not readable":            {[]byte("\xff"), nil, true},
		"an envelope that is not": {plain, []byte("\xff"), true},
	} {
		if got := r.Holds(resource.New(resource.Resource{Name: "c", Body: c.body, Extra: c.extra})); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
