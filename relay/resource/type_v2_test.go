package resource

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/relay/resource/v2types"
)

// TestTableV2: a type of version 2 differs from that of version 3 in its names only (J2, J4).
func TestTableV2(t *testing.T) {
	for v2, v3 := range map[string]string{
		ClusterV2URL: ClusterURL, EndpointV2URL: EndpointURL, ListenerV2URL: ListenerURL, ScopedRouteV2URL: ScopedRouteURL,
		RouteV2URL: RouteURL, VirtualHostV2URL: VirtualHostURL, SecretV2URL: SecretURL, RuntimeV2URL: RuntimeURL,
	} {
		a, b := TypeOf(v2), TypeOf(v3)
		if a == b || !a.V2 || b.V2 || !IsKnown(v2) {
			t.Errorf("%s is not the one of version 2, or not known", v2)
		}
		equal(t, v2+" full", a.FullState, b.FullState)
		equal(t, v2+" wild", a.Wildcard, b.Wildcard)
		equal(t, v2+" order", a.Order, b.Order)
		equal(t, v2+" name field", a.NameField, b.NameField)
		equal(t, v2+" inner name", a.NamedByBody(), b.NamedByBody())
		equal(t, v2+" has endpoints", a.EndpointType != "", b.EndpointType != "")
	}
	equal(t, "endpoints of clusters", TypeOf(ClusterV2URL).EndpointType, EndpointV2URL)
	equal(t, "endpoints of clusters", TypeOf(ClusterURL).EndpointType, EndpointURL)
	mine := KnownV2()
	if !slices.IsSortedFunc(mine, func(a, b *Type) int { return a.Order - b.Order }) || len(mine) != 8 {
		t.Errorf("%d types, out of order", len(mine))
	}
	mine[0] = nil
	if KnownV2()[0] == nil {
		t.Error("KnownV2 gives away its own slice")
	}
}

// relabelled packs a message under another type URL: the messages of the two versions have the same
// encoding.
func relabelled(t *testing.T, url string, m proto.Message) *anypb.Any {
	t.Helper()
	return &anypb.Any{TypeUrl: url, Value: marshal(t, m)}
}

// decodeV2 decodes a message with the descriptors of version 2, and fails the test if it has a
// field that version 2 lacks.
func decodeV2(t *testing.T, name protoreflect.FullName, b []byte) protoreflect.Message {
	t.Helper()
	files, err := v2types.Files()
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.FindDescriptorByName(name)
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	noUnknown(t, m)
	return m
}

func noUnknown(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if len(m.GetUnknown()) > 0 {
		t.Errorf("%s holds what version 2 does not have: %x", m.Descriptor().FullName(), m.GetUnknown())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil || f.IsMap():
		case f.IsList():
			for i := range v.List().Len() {
				noUnknown(t, v.List().Get(i).Message())
			}
		default:
			noUnknown(t, v.Message())
		}
		return true
	})
}

// TestWhatVersion2Lacks: a response in version 2 has no field that its messages lack, and all that
// they have (J3).
func TestWhatVersion2Lacks(t *testing.T) {
	wrapper := &discoveryv3.Resource{
		Name: "a", Version: "1", Aliases: []string{"b", "c"}, Ttl: durationpb.New(time.Minute),
		CacheControl: &discoveryv3.Resource_CacheControl{DoNotCache: true}, Metadata: &corev3.Metadata{},
		Resource: relabelled(t, ClusterV2URL, &clusterv3.Cluster{Name: "a"}),
	}
	wrapper.ProtoReflect().SetUnknown(unknownField99)
	got, err := DecodeDelta(marshal(t, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterV2URL, Resources: []*discoveryv3.Resource{wrapper}}))
	if err != nil || len(got.Resources) != 1 {
		t.Fatal(err, got)
	}
	r := got.Resources[0]
	m := &Message{
		Type: TypeOf(ClusterV2URL), Version: "7", ControlPlane: "relay", Resources: []*Resource{r}, Heartbeats: []*Resource{r},
		Lifetimes: map[*Resource]time.Duration{r: time.Minute}, Removed: []string{"z"},
		RemovedNames: [][]byte{NewError("y", CodeNotFound, "").Raw}, Errors: [][]byte{NewError("x", CodeNotFound, "").Raw}, Extra: unknownField99,
	}
	delta := decodeV2(t, "envoy.api.v2.DeltaDiscoveryResponse", AppendNonce(AppendDelta(nil, m), "n"))
	var back discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(marshal(t, delta.Interface()), &back); err != nil {
		t.Fatal(err)
	}
	want := &discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: "7", TypeUrl: ClusterV2URL, Nonce: "n", RemovedResources: []string{"z"},
		Resources: []*discoveryv3.Resource{{Name: "a", Version: "1", Aliases: []string{"b", "c"}, Resource: wrapper.Resource}},
	}
	if !proto.Equal(&back, want) {
		t.Errorf("delta: %v", &back)
	}
	sotw := decodeV2(t, "envoy.api.v2.DiscoveryResponse", AppendNonce(AppendSotW(nil, m), "n"))
	var state discoveryv3.DiscoveryResponse
	if err := proto.Unmarshal(marshal(t, sotw.Interface()), &state); err != nil {
		t.Fatal(err)
	}
	if want := (&discoveryv3.DiscoveryResponse{
		VersionInfo: "7", TypeUrl: ClusterV2URL, Nonce: "n", Resources: []*anypb.Any{wrapper.Resource},
		ControlPlane: &corev3.ControlPlane{Identifier: "relay"},
	}); !proto.Equal(&state, want) {
		t.Errorf("SotW: %v", &state)
	}
	if len(r.Extra) == len(aliasesOf(r.Extra)) || len(m.Heartbeats) != 1 {
		t.Error("the message itself was changed")
	}
}

// TestEndpointsOfVersion2: a cluster of version 2 names its endpoint set in the same fields (E3).
func TestEndpointsOfVersion2(t *testing.T) {
	eds := &clusterv3.Cluster{
		Name: "c", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: "s"},
	}
	decodeV2(t, "envoy.api.v2.Cluster", marshal(t, eds))
	for url, want := range map[string]string{ClusterV2URL: "s", ListenerV2URL: ""} {
		r := sotw(t, url, relabelled(t, url, eds))
		if len(r.Resources) != 1 || r.Resources[0].Endpoints != want || r.Resources[0].Name != "c" {
			t.Errorf("%s: %+v", url, r)
		}
	}
}

// TestNoRedirectsInVersion2: resources of version 2 contain messages of version 2 only (J2).
func TestNoRedirectsInVersion2(t *testing.T) {
	r := decodeForeign(t, ClusterV2URL, "a", &corev3.Node{})
	equal(t, "invalid", len(r.Invalid), 1)
	got, err := DecodeDelta(marshal(t, &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: ClusterV2URL, Resources: []*discoveryv3.Resource{{Name: "a", Resource: &anypb.Any{TypeUrl: redirectURL}}},
	}))
	if err != nil || len(got.Invalid) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}
