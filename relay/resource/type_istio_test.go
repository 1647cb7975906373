package resource

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestIstioTypes: clients subscribe to types of Istio with an empty list. These types have labels
// of their own in metrics, and short names (B20, B23).
func TestIstioTypes(t *testing.T) {
	for _, url := range []string{NameTableURL, ProxyConfigURL, AddressURL, WorkloadURL, AuthorizationURL} {
		typ := TypeOf(url)
		if !typ.Wildcard || typ.Order != orderLast || typ.Service != nil || !IsKnown(url) {
			t.Errorf("%s: %+v", url, typ)
		}
		equal(t, url+" by its short name", TypeNamed(typ.ShortName()), typ)
		equal(t, url+" as a label", slices.Contains(TypeLabels(), TypeLabel(url)) && TypeLabel(url) != OtherLabel, true)
		equal(t, url+" has no SotW form", typ.DeltaOnly(), url == AddressURL || url == AuthorizationURL)
		equal(t, url+" among those of the protocol", slices.Contains(Known(), typ), false)
	}
}

// nameTable is a body like the name table of Istio: field 1 is an entry of a map, whose order is
// undefined.
func nameTable(t *testing.T, hosts ...string) *anypb.Any {
	fields := make(map[string]any, len(hosts))
	for _, h := range hosts {
		fields[h] = "10.0.0.1"
	}
	table, err := structpb.NewStruct(fields)
	if err != nil {
		t.Fatal(err)
	}
	return &anypb.Any{TypeUrl: NameTableURL, Value: marshal(t, table)}
}

// TestOnlyResource: istiod sends its name table without a name, on delta as on SotW, and it is one
// resource whatever it contains (A2, A3).
func TestOnlyResource(t *testing.T) {
	for _, r := range []*Response{
		delta(t, NameTableURL, &discoveryv3.Resource{Resource: nameTable(t, "a.svc", "b.svc")}),
		delta(t, NameTableURL, &discoveryv3.Resource{Resource: nameTable(t, "c.svc")}),
		delta(t, NameTableURL, &discoveryv3.Resource{Resource: nameTable(t)}),
		sotw(t, NameTableURL, nameTable(t, "a.svc", "b.svc")),
		sotw(t, NameTableURL, nameTable(t)),
	} {
		if len(r.Invalid) > 0 || !slices.Equal(names(r.Resources), []string{"NameTable"}) {
			t.Errorf("%q, invalid %v", names(r.Resources), r.Invalid)
		}
	}
	two := delta(t, NameTableURL, &discoveryv3.Resource{Resource: nameTable(t, "a")}, &discoveryv3.Resource{Resource: nameTable(t, "b")})
	equal(t, "a second one is refused (B29)", len(two.Resources) == 1 && len(two.Invalid) == 1, true)
	named := delta(t, NameTableURL, &discoveryv3.Resource{Name: "mine", Resource: nameTable(t)})
	equal(t, "a name that there is", slices.Equal(names(named.Resources), []string{"mine"}), true)

	gone, err := DecodeDelta(marshal(t, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: NameTableURL, RemovedResources: []string{""}}))
	if err != nil || !slices.Equal(gone.Removed, []string{"NameTable"}) {
		t.Errorf("removed without a name: %v, %v", gone, err)
	}
}
