package resource

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// The fuzz targets compare the decoders with protobuf on arbitrary bytes: nothing panics, and bytes
// that protobuf decodes have the same result here.

func FuzzDecodeDelta(f *testing.F) {
	f.Add(marshal(f, &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: EndpointURL, SystemVersionInfo: "1", Nonce: "n", RemovedResources: []string{"gone"}, ControlPlane: controlPlane("cp"),
		Resources: []*discoveryv3.Resource{
			{Name: "a", Version: "1", Resource: pack(f, &endpointv3.ClusterLoadAssignment{ClusterName: "a"}), Aliases: []string{"x"}},
			{ResourceName: &discoveryv3.ResourceName{Name: "b"}, Ttl: &durationpb.Duration{Seconds: 3, Nanos: 1}},
		},
	}))
	seed(f, func(i int) proto.Message { return genDeltaResponse().Example(i) })
	f.Fuzz(func(t *testing.T, b []byte) { checkDelta(t, b) })
}

func FuzzDecodeSotW(f *testing.F) {
	f.Add(marshal(f, &discoveryv3.DiscoveryResponse{TypeUrl: ClusterURL, VersionInfo: "1", Nonce: "n", ControlPlane: controlPlane("cp")}))
	seed(f, func(i int) proto.Message { return genSotWResponse().Example(i) })
	f.Fuzz(func(t *testing.T, b []byte) { checkSotW(t, b) })
}

// FuzzAbout: entries of a response about names besides the resources (A7, C16).
func FuzzAbout(f *testing.F) {
	seed(f, func(i int) proto.Message { return genResourceError().Example(i) })
	seed(f, func(i int) proto.Message { return genResourceName().Example(i) })
	f.Fuzz(func(t *testing.T, b []byte) {
		var e discoveryv3.ResourceError
		var a About
		if err := a.readError(b); proto.Unmarshal(b, &e) == nil {
			equal(t, "readable", err == nil, true)
			equal(t, "name", a.Name, e.GetResourceName().GetName())
			equal(t, "code", a.Code, e.GetErrorDetail().GetCode())
		}
		var n discoveryv3.ResourceName
		a = About{}
		if err := a.readName(b); proto.Unmarshal(b, &n) == nil {
			equal(t, "readable", err == nil, true)
			equal(t, "name", a.Name, n.GetName())
		}
	})
}

func FuzzDecodeSotWRequest(f *testing.F) {
	seed(f, func(i int) proto.Message { return genSotWRequest().Example(i) })
	f.Fuzz(func(t *testing.T, b []byte) { checkSotWRequest(t, b) })
}

func FuzzDecodeDeltaRequest(f *testing.F) {
	seed(f, func(i int) proto.Message { return genDeltaRequest().Example(i) })
	f.Fuzz(func(t *testing.T, b []byte) { checkDeltaRequest(t, b) })
}

// FuzzEndpointsOf: E3: the endpoint set of a Cluster, compared with the real message.
func FuzzEndpointsOf(f *testing.F) {
	seed(f, func(i int) proto.Message { return genCluster("c").Example(i) })
	f.Fuzz(func(t *testing.T, b []byte) {
		var c clusterv3.Cluster
		got := endpointsOf(TypeOf(ClusterURL), "c", b)
		if proto.Unmarshal(b, &c) != nil {
			return
		}
		equal(t, "endpoints", got, endpointsFor("c", pack(t, &c)))
	})
}

// FuzzDecodePeer: a response of another node decodes to the same response as without its mark, and
// the mark is unchanged.
func FuzzDecodePeer(f *testing.F) {
	for i := range 16 {
		f.Add(marshal(f, genDeltaResponse().Example(i)), uint64(i), "127.0.0.1:1", "v1", i%2 == 0)
	}
	b := slices.Clip(marshal(f, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterURL, RemovedResources: []string{"gone"}}))
	f.Add(AppendPeerMark(b, PeerMark{Edits: 1 << 63, Server: "origin", Cut: true, System: SystemVersion{Version: "v1"}}), uint64(0), "", "", false)
	for _, tag := range []uint64{markEdits, markCut, markKept} { // the encoder omits them if they are zero
		f.Add(protowire.AppendVarint(protowire.AppendVarint(b, tag), 0), uint64(1), "\xff", "\xff", false)
	}
	f.Fuzz(func(t *testing.T, b []byte, edits uint64, server, system string, cut bool) {
		m := PeerMark{Edits: edits, Server: server, System: SystemVersion{Version: system, Digest: digestOf(b)}, Cut: cut, Kept: edits%2 > 0}
		if system != "" {
			m.Errored = Errored{Names: []string{system, "n"}, Age: time.Duration(edits%longestAge) * time.Second}
		}
		checkPeer(t, b, m)
	})
}

// FuzzHollow: a decodable endpoint set is hollow if and only if it has no endpoints.
func FuzzHollow(f *testing.F) {
	f.Add(marshal(f, &endpointv3.ClusterLoadAssignment{Endpoints: []*endpointv3.LocalityLbEndpoints{{Priority: 1}}}))
	f.Add(marshal(f, &endpointv3.ClusterLoadAssignment{Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{}}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		hollow := New(Resource{Name: "n", Body: marshal(t, &anypb.Any{TypeUrl: EndpointURL, Value: b})}).Hollow()
		var set endpointv3.ClusterLoadAssignment
		if proto.Unmarshal(b, &set) != nil {
			return
		}
		for _, l := range set.GetEndpoints() {
			if len(l.GetLbEndpoints()) > 0 || l.GetLbConfig() != nil {
				if hollow {
					t.Fatalf("%v is hollow", &set)
				}
				return
			}
		}
		if !hollow && len(b) > 0 {
			t.Fatalf("%v is not hollow", &set)
		}
	})
}

// seed adds examples to the corpus.
func seed(f *testing.F, example func(i int) proto.Message) {
	f.Helper()
	for i := range 16 {
		f.Add(marshal(f, example(i)))
	}
	f.Add([]byte{})
	f.Add([]byte{0x0a})
}
