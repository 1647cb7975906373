package resource

import (
	"encoding/hex"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

func genDigest() *rapid.Generator[Digest] {
	return rapid.Custom(func(t *rapid.T) (d Digest) {
		// Long runs of ones make the additions carry.
		for i := range d {
			d[i] = rapid.SampledFrom([]byte{0, 1, 0x7f, 0xff, rapid.Byte().Draw(t, "b")}).Draw(t, "byte")
		}
		return d
	})
}

// TestDigestIsASum: the order of members does not matter, and Sub undoes Add.
func TestDigestIsASum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := genDigest().Draw(t, "a"), genDigest().Draw(t, "b"), genDigest().Draw(t, "c")
		equal(t, "a+b", a.Add(b), b.Add(a))
		equal(t, "(a+b)+c", a.Add(b).Add(c), a.Add(b.Add(c)))
		equal(t, "a+b-b", a.Add(b).Sub(b), a)
		equal(t, "a-b+b", a.Sub(b).Add(b), a)
		equal(t, "a-a", a.Sub(a), Digest{})
		equal(t, "a+0", a.Add(Digest{}), a)
		if b != (Digest{}) && a.Add(b) == a {
			t.Fatal("adding something changed nothing")
		}
	})
}

// TestDigestsKeepPartsApart: a byte that moves from one part to the next changes the digest.
func TestDigestsKeepPartsApart(t *testing.T) {
	for _, pair := range [][2]*Resource{
		{New(Resource{Name: "ab", Body: []byte("c")}), New(Resource{Name: "a", Body: []byte("bc")})},
		{New(Resource{Name: "a", Body: []byte("bc")}), New(Resource{Name: "a", Body: []byte("b"), Extra: []byte("c")})},
	} {
		if pair[0].Member() == pair[1].Member() {
			t.Errorf("%+v and %+v have one digest", pair[0], pair[1])
		}
	}
	if NamesDigest([]string{"a", "bc"}) == NamesDigest([]string{"ab", "c"}) || NamesDigest(nil) == NamesDigest([]string{""}) {
		t.Error("two lists of names have one digest")
	}
}

// TestVersions: D14: a version from the control plane is kept, an empty one is replaced by the
// digest of the content (D1); K11: the digest is the same in every run, on every node, and
// therefore in this file.
func TestVersions(t *testing.T) {
	body := []byte("\x0a\x01t\x12\x01v")
	equal(t, "given", New(Resource{Name: "a", Version: "v42", Body: body}).Version, "v42")
	equal(t, "derived", New(Resource{Name: "a", Body: body}).Version, "755f86ceb79b81ccb4bc0a6155aad259")
	equal(t, "derived, under another name", New(Resource{Name: "b", Body: body}).Version, "755f86ceb79b81ccb4bc0a6155aad259")           // D1: content alone
	equal(t, "derived, with a ttl", New(Resource{Name: "a", Body: body, TTL: time.Second}).Version, "755f86ceb79b81ccb4bc0a6155aad259") // the remaining TTL differs between nodes
	equal(t, "heartbeat", New(Resource{Name: "a", TTL: time.Second}).Version, "")                                                       // F6
	equal(t, "of a set", New(Resource{Name: "a", Body: body}).Member().Add(New(Resource{Name: "b", Body: body}).Member()).Hex(),
		"31b5fc84cecf910457a5b1aa1f3120a0")
	equal(t, "of names", hex.EncodeToString(func() []byte { d := NamesDigest([]string{"a", "b"}); return d[:] }()), "cf6ab613e3942391f88ed698557e1680")
}

// TestMember: sets are distinguished by content, not by the version from the control plane (D7,
// K11).
func TestMember(t *testing.T) {
	v1, v2 := New(Resource{Name: "a", Version: "1", Body: []byte("x")}), New(Resource{Name: "a", Version: "2", Body: []byte("x")})
	if v1.Member() != v2.Member() || !v1.SameContent(v2) { // D15, K11
		t.Error("one content under two versions has two digests")
	}
	reused := New(Resource{Name: "a", Version: "1", Body: []byte("y")})
	if v1.Member() == reused.Member() || v1.SameContent(reused) { // D7
		t.Error("two contents under one version have one digest")
	}
}

// TestDurations: the range of a valid Duration is accepted, and capped at the range of
// time.Duration; C5: any other value is invalid.
func TestDurations(t *testing.T) {
	for _, c := range []struct {
		in   *durationpb.Duration
		want time.Duration
		bad  bool
	}{
		{in: nil, want: 0},
		{in: &durationpb.Duration{}, want: 0},
		{in: &durationpb.Duration{Seconds: 30}, want: 30 * time.Second},
		{in: &durationpb.Duration{Seconds: 1, Nanos: 999_999_999}, want: 2*time.Second - 1},
		{in: &durationpb.Duration{Seconds: 400 * 24 * 3600}, want: 400 * 24 * time.Hour},
		{in: &durationpb.Duration{Seconds: math.MaxInt64 / int64(time.Second)}, want: time.Duration(math.MaxInt64).Truncate(time.Second)},
		{in: &durationpb.Duration{Seconds: 315_576_000_000, Nanos: 999_999_999}, want: math.MaxInt64},
		{in: &durationpb.Duration{Seconds: 315_576_000_001}, bad: true},
		{in: &durationpb.Duration{Seconds: math.MaxInt64}, bad: true},
		{in: &durationpb.Duration{Seconds: -1}, bad: true},
		{in: &durationpb.Duration{Seconds: math.MinInt64}, bad: true},
		{in: &durationpb.Duration{Seconds: 1, Nanos: -1}, bad: true},
		{in: &durationpb.Duration{Nanos: 1_000_000_000}, bad: true},
	} {
		r := delta(t, RuntimeURL, &discoveryv3.Resource{Name: "a", Ttl: c.in})
		switch {
		case c.bad && len(r.Invalid) != 1:
			t.Errorf("%v was accepted as %v", c.in, r.Resources[0].TTL)
		case !c.bad && (len(r.Resources) != 1 || r.Resources[0].TTL != c.want):
			t.Errorf("%v: %+v", c.in, r)
		}
	}
}

// TestEndpoints: E3, for all forms in a Cluster.
func TestEndpoints(t *testing.T) {
	eds := &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
	for want, c := range map[string]*clusterv3.Cluster{
		"c":   {Name: "c", ClusterDiscoveryType: eds},
		"svc": {Name: "c", ClusterDiscoveryType: eds, EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: "svc"}},
		"":    {Name: "c", EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: "svc"}},
	} {
		for variant, r := range map[string]*Response{
			"sotw": sotw(t, ClusterURL, pack(t, c)), "delta": delta(t, ClusterURL, &discoveryv3.Resource{Name: "c", Resource: pack(t, c)}),
		} {
			equal(t, variant, r.Resources[0].Endpoints, want)
		}
	}
	// A custom type after the type replaces it: they share a oneof.
	b := marshal(t, &clusterv3.Cluster{Name: "c", ClusterDiscoveryType: eds})
	b = append(b, marshal(t, &clusterv3.Cluster{ClusterDiscoveryType: &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{}}})...)
	equal(t, "custom type", endpointsOf(TypeOf(ClusterURL), "c", b), "")
	equal(t, "another type", endpointsOf(TypeOf(ListenerURL), "c", marshal(t, &clusterv3.Cluster{ClusterDiscoveryType: eds})), "")
	cut := protowire.AppendTag(b[:0:0], 3, protowire.BytesType)
	equal(t, "cut off", endpointsOf(TypeOf(ClusterURL), "c", cut), "")
}

// TestSize: the size that counts against the bound on idle keys grows with the content.
func TestSize(t *testing.T) {
	small, large := New(Resource{Name: "a"}), New(Resource{Name: "a", Body: make([]byte, 1000), Extra: make([]byte, 100), Aliases: []string{"0123456789"}})
	if d := large.Size() - small.Size(); d < 1110 || d > 1200 {
		t.Errorf("1110 bytes more count as %d", d)
	}
}

// packed returns m as the body of a resource.
func packed(t rapid.TB, m proto.Message) []byte { return marshal(t, pack(t, m)) }

// TestHollow: an endpoint set or route configuration without content is hollow; others, and
// malformed ones, are not.
func TestHollow(t *testing.T) {
	locality := func(l *endpointv3.LocalityLbEndpoints) proto.Message {
		return &endpointv3.ClusterLoadAssignment{ClusterName: "c", Endpoints: []*endpointv3.LocalityLbEndpoints{{}, l}}
	}
	for name, tc := range map[string]struct {
		body []byte
		want bool
	}{
		"no locality":        {packed(t, &endpointv3.ClusterLoadAssignment{ClusterName: "c"}), true},
		"an empty locality":  {packed(t, locality(&endpointv3.LocalityLbEndpoints{Priority: 1})), true},
		"an endpoint":        {packed(t, locality(&endpointv3.LocalityLbEndpoints{LbEndpoints: []*endpointv3.LbEndpoint{{}}})), false},
		"endpoints by LEDS":  {packed(t, locality(&endpointv3.LocalityLbEndpoints{LbConfig: &endpointv3.LocalityLbEndpoints_LedsClusterLocalityConfig{LedsClusterLocalityConfig: &endpointv3.LedsClusterLocalityConfig{}}})), false},
		"no virtual host":    {packed(t, &routev3.RouteConfiguration{Name: "r"}), true},
		"a virtual host":     {packed(t, &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{}}}), false},
		"hosts on demand":    {packed(t, &routev3.RouteConfiguration{Vhds: &routev3.Vhds{}}), false},
		"an empty cluster":   {packed(t, &clusterv3.Cluster{}), false},
		"no body":            {nil, false},
		"what is no message": {[]byte("\xff"), false},
	} {
		if got := New(Resource{Name: "n", Body: tc.body}).Hollow(); got != tc.want {
			t.Errorf("%s: hollow is %t", name, got)
		}
	}
}
