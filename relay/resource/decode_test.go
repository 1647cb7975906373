package resource

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestDecodersAgreeWithProtobuf: random messages as protobuf encodes them, and the concatenation of
// two, which protobuf merges.
func TestDecodersAgreeWithProtobuf(t *testing.T) {
	encoded := func(t *rapid.T, draw func() proto.Message) []byte {
		b := marshal(t, draw())
		if rapid.IntRange(0, 4).Draw(t, "merge") == 0 {
			b = append(b, marshal(t, draw())...)
		}
		return b
	}
	for name, check := range map[string]func(*rapid.T){
		"delta response": func(t *rapid.T) {
			checkDelta(t, encoded(t, func() proto.Message { return genDeltaResponse().Draw(t, "m") }))
		},
		"response of another node": func(t *rapid.T) {
			checkPeer(t, encoded(t, func() proto.Message { return genDeltaResponse().Draw(t, "m") }),
				PeerMark{Edits: rapid.Uint64().Draw(t, "edits"), Server: rapid.String().Draw(t, "server"), System: SystemVersion{Version: rapid.String().Draw(t, "system")}, Cut: rapid.Bool().Draw(t, "cut"), Kept: rapid.Bool().Draw(t, "kept"), Versions: rapid.SliceOfN(rapid.StringN(1, 5, 9), 0, MaxPeerVersions).Draw(t, "versions"), Age: time.Duration(rapid.Int64Range(0, 1<<50).Draw(t, "age"))})
		},
		"sotw response": func(t *rapid.T) {
			checkSotW(t, encoded(t, func() proto.Message { return genSotWResponse().Draw(t, "m") }))
		},
		"delta request": func(t *rapid.T) {
			checkDeltaRequest(t, encoded(t, func() proto.Message { return genDeltaRequest().Draw(t, "m") }))
		},
		"sotw request": func(t *rapid.T) {
			checkSotWRequest(t, encoded(t, func() proto.Message { return genSotWRequest().Draw(t, "m") }))
		},
	} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, check) })
	}
}

func pack(t rapid.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func delta(t rapid.TB, url string, rs ...*discoveryv3.Resource) *Response {
	t.Helper()
	b := marshal(t, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: url, Resources: rs})
	r, err := DecodeDelta(b)
	if err != nil {
		t.Fatal(err)
	}
	checkDelta(t, b)
	return r
}

func sotw(t rapid.TB, url string, bodies ...*anypb.Any) *Response {
	t.Helper()
	b := marshal(t, &discoveryv3.DiscoveryResponse{TypeUrl: url, Resources: bodies})
	r, err := DecodeSotW(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkSotW(t, b)
	return r
}

// TestInvalidResources: C5, A3 define what is invalid; the rest of the response is used, and the
// error says which resource and why.
func TestInvalidResources(t *testing.T) {
	cla := func(name string) *anypb.Any { return pack(t, &endpointv3.ClusterLoadAssignment{ClusterName: name}) }
	good := &discoveryv3.Resource{Name: "good", Resource: cla("good")}
	for name, c := range map[string]struct {
		in        *discoveryv3.Resource
		says, why string
	}{
		"another type (B30)":        {&discoveryv3.Resource{Name: "x", Resource: pack(t, &clusterv3.Cluster{Name: "x"})}, "x", "expected"},
		"no type":                   {&discoveryv3.Resource{Name: "x", Resource: &anypb.Any{}}, "x", `has type ""`},
		"another inner name (A3)":   {&discoveryv3.Resource{Name: "a", Resource: cla("b")}, "a", `"b"`},
		"no name":                   {&discoveryv3.Resource{Resource: cla("")}, "#1", "no name"},
		"no name and no body":       {&discoveryv3.Resource{}, "#1", "no name"},
		"the same name twice (B29)": {good, "good", "twice"},
		"truncated": {&discoveryv3.Resource{Name: "x", Resource: &anypb.Any{TypeUrl: EndpointURL, Value: []byte{0x0a, 9, 'x'}}},
			"x", "truncated"},
		"a name that is no UTF-8": {&discoveryv3.Resource{Name: "x", Resource: &anypb.Any{TypeUrl: EndpointURL, Value: []byte{0x0a, 1, 0xff}}},
			"x", "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			r := delta(t, EndpointURL, good, c.in, &discoveryv3.Resource{Name: "also", Resource: cla("also")})
			if !slices.Equal(names(r.Resources), []string{"good", "also"}) || len(r.Invalid) != 1 {
				t.Fatalf("valid %q, invalid %v", names(r.Resources), r.Invalid)
			}
			err := error(r.Invalid[0])
			if r.Invalid[0].Name != c.says || !strings.Contains(err.Error(), c.why) || !errors.Is(err, r.Invalid[0].Err) {
				t.Fatalf("%q, expected it to name %q and say %q", err, c.says, c.why)
			}
		})
	}
}

// TestReceivedEarlier: D2: a resource that was received before with the same bytes is taken from there;
// what differs in anything is not, nor a resource with a version of its own.
func TestReceivedEarlier(t *testing.T) {
	a, b := pack(t, &clusterv3.Cluster{Name: "a"}), pack(t, &clusterv3.Cluster{Name: "b"})
	wire := marshal(t, &discoveryv3.DiscoveryResponse{TypeUrl: ClusterURL, VersionInfo: "1", Nonce: "1", Resources: []*anypb.Any{a, b}})
	first, err := DecodeSotW(wire, nil)
	if err != nil || len(first.Resources) != 2 {
		t.Fatal(first, err)
	}
	is := first.Resources[0]
	for name, c := range map[string]struct {
		earlier *Resource
		taken   bool
	}{
		"the same":           {is, true},
		"unknown":            {nil, false},
		"another content":    {New(Resource{Name: "a", Body: marshal(t, b)}), false},
		"a version":          {New(Resource{Name: "a", Body: is.Body, Version: is.Version}), false},
		"a lifetime":         {New(Resource{Name: "a", Body: is.Body, TTL: time.Minute}), false},
		"not to be cached":   {New(Resource{Name: "a", Body: is.Body, DoNotCache: true}), false},
		"more than the body": {New(Resource{Name: "a", Body: is.Body, Extra: []byte{0x22, 1, 'b'}}), false},
		"another name":       {New(Resource{Name: "z", Body: is.Body}), false},
	} {
		t.Run(name, func(t *testing.T) {
			again, err := DecodeSotW(wire, func(typ *Type) Earlier {
				if typ.URL != ClusterURL {
					t.Errorf("type %s", typ.URL)
				}
				return Earlier{Get: func(name []byte) *Resource {
					if string(name) == "a" {
						return c.earlier
					}
					return nil
				}}
			})
			//nolint:govet // the errors compared are our own, made of texts
			if err != nil || !reflect.DeepEqual(first, again) {
				t.Fatalf("%+v became %+v, %v", first, again, err)
			}
			if taken := again.Resources[0] == c.earlier; taken != c.taken {
				t.Errorf("it was taken: %t, expected %t", taken, c.taken)
			}
		})
	}
}

// TestWholeResponseUnreadable: these responses have no resource that a NACK could name.
func TestWholeResponseUnreadable(t *testing.T) {
	ok := marshal(t, &discoveryv3.DiscoveryResponse{TypeUrl: ClusterURL, Nonce: "1"})
	for name, b := range map[string][]byte{
		"empty": {}, "truncated": ok[:len(ok)-1], "no type": marshal(t, &discoveryv3.DiscoveryResponse{Nonce: "1"}),
		"nonce is no UTF-8": append(slices.Clone(ok), 0x2a, 1, 0xff), "field 0": append(slices.Clone(ok), 0),
		"an open group": append(slices.Clone(ok), 0x7b),
	} {
		for _, delta := range []bool{false, true} {
			if r, err := decode(b, delta, false, nil); err == nil || err.Error() == "" || r != nil {
				t.Errorf("%s (delta %t): %v, %v", name, delta, r, err)
			}
		}
	}
}

// TestWrongWireTypeIsUnknown: as in protobuf; the field is forwarded (A7).
func TestWrongWireTypeIsUnknown(t *testing.T) {
	varint := func(num protowire.Number) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), 7)
	}
	in := marshal(t, &discoveryv3.Resource{Name: "a", Resource: pack(t, structpb.NewNullValue())})
	for num := protowire.Number(1); num < 12; num++ {
		in = append(in, varint(num)...)
	}
	b := marshal(t, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: TypePrefix + "google.protobuf.Value"})
	b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), in)
	for num := protowire.Number(1); num < 12; num++ {
		b = append(b, varint(num)...)
	}
	checkDelta(t, b)
	for num := protowire.Number(1); num < 12; num++ {
		checkDeltaRequest(t, varint(num))
		checkSotWRequest(t, varint(num))
	}
	r, err := DecodeDelta(b)
	if err != nil || len(r.Resources) != 1 {
		t.Fatal(r, err)
	}
}

// TestUnknownTypesAreOpaque: any type URL is relayed by the name in the envelope, whatever its
// field 1 may be (A3, G8).
func TestUnknownTypesAreOpaque(t *testing.T) {
	value := []byte{0x0a, 2, 0xff, 0xfe} // field 1 is not a string
	for _, url := range []string{TypePrefix + "my.Thing", lbEndpointListURL, VirtualHostURL, RuntimeURL} {
		r := delta(t, url, &discoveryv3.Resource{Name: "a", Resource: &anypb.Any{TypeUrl: url, Value: value}})
		if len(r.Invalid) > 0 || len(r.Resources) != 1 {
			t.Errorf("%s: %v", url, r.Invalid)
		}
	}
}

// TestDeltaOnlyTypesOnSotW: A2: a body without a name field is not relayed without a name.
func TestDeltaOnlyTypesOnSotW(t *testing.T) {
	r := sotw(t, VirtualHostURL, pack(t, &routev3.VirtualHost{Name: "inner"}))
	if len(r.Resources) != 0 || len(r.Invalid) != 1 {
		t.Fatalf("%q, %v", names(r.Resources), r.Invalid)
	}
}

// TestEnvelopeNamesVirtualHosts: A3: the inner name is not the resource name.
func TestEnvelopeNamesVirtualHosts(t *testing.T) {
	r := delta(t, VirtualHostURL, &discoveryv3.Resource{Name: "rc/h", Resource: pack(t, &routev3.VirtualHost{Name: "x"})})
	if !slices.Equal(names(r.Resources), []string{"rc/h"}) {
		t.Fatalf("%q, %v", names(r.Resources), r.Invalid)
	}
}

// TestSotWWrapper: C17: wrapped and bare resources may be mixed; D9: the fields of the wrapper are
// kept for delta clients; D1: its version is not.
func TestSotWWrapper(t *testing.T) {
	bare := pack(t, &listenerv3.Listener{Name: "a"})
	r := sotw(t, ListenerURL,
		pack(t, &discoveryv3.Resource{Name: "a", Version: "ignored", Resource: bare, CacheControl: &discoveryv3.Resource_CacheControl{DoNotCache: true}}),
		pack(t, &listenerv3.Listener{Name: "b"}),
		pack(t, &discoveryv3.Resource{Name: "c", Resource: pack(t, &listenerv3.Listener{Name: "d"})}), // A3
	)
	if !slices.Equal(names(r.Resources), []string{"a", "b"}) || len(r.Invalid) != 1 {
		t.Fatalf("%q, %v", names(r.Resources), r.Invalid)
	}
	a := r.Resources[0]
	if string(a.Body) != string(marshal(t, bare)) { // D2
		t.Fatalf("body %x", a.Body)
	}
	if a.Version == "ignored" || len(a.Extra) == 0 {
		t.Fatalf("%+v", a)
	}
}

// TestBodyBytesAreUntouched: D2: an encoding that differs from protobuf's own is forwarded
// unchanged.
func TestBodyBytesAreUntouched(t *testing.T) {
	value := marshal(t, &clusterv3.Cluster{Name: "a", AltStatName: "x"})
	value = append(protowire.AppendString(protowire.AppendTag(nil, 500, protowire.BytesType), "unknown"), value...)
	odd := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), value) // the value before the type
	odd = protowire.AppendString(protowire.AppendTag(odd, 1, protowire.BytesType), ClusterURL)
	b := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), odd)
	b = protowire.AppendString(protowire.AppendTag(b, 4, protowire.BytesType), ClusterURL)
	r, err := DecodeSotW(b, nil)
	if err != nil || len(r.Resources) != 1 || string(r.Resources[0].Body) != string(odd) {
		t.Fatal(r, err)
	}
	for _, out := range [][]byte{AppendSotW(nil, messageOf(r)), AppendDelta(nil, messageOf(r))} {
		if !strings.Contains(string(out), string(odd)) {
			t.Fatalf("%x does not hold %x", out, odd)
		}
	}
}

// TestUnknownFieldsSurvive: A7: field 99 is forwarded from delta to delta.
func TestUnknownFieldsSurvive(t *testing.T) {
	in := &discoveryv3.Resource{Name: "a", Version: "1", Resource: pack(t, &endpointv3.ClusterLoadAssignment{ClusterName: "a"})}
	in.ProtoReflect().SetUnknown(unknownField99)
	r := delta(t, EndpointURL, in)
	var out discoveryv3.DeltaDiscoveryResponse
	unmarshal(t, AppendDelta(nil, messageOf(r)), &out)
	if !proto.Equal(out.GetResources()[0], in) {
		t.Fatalf("%v, expected %v", out.GetResources()[0], in)
	}
}

// TestTypeURLDoesNotAllocate: one is decoded for every ACK.
func TestTypeURLDoesNotAllocate(t *testing.T) {
	b := marshal(t, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: ClusterURL})
	var r Request
	if n := testing.AllocsPerRun(100, func() { _ = DecodeDeltaRequest(b, &r) }); n > 0 {
		t.Errorf("%v allocations for an ACK without a nonce", n)
	}
}

// TestUnreadableParts: parts that are forwarded unchanged must be decodable by the libraries of
// clients. A single part that they cannot decode would end the stream of every client of the key,
// again and again.
func TestUnreadableParts(t *testing.T) {
	within := func(levels int, message func([]byte) []byte) (b []byte) {
		for range levels {
			b = message(b)
		}
		return b
	}
	part := func(number protowire.Number) func([]byte) []byte {
		return func(b []byte) []byte {
			return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), b)
		}
	}
	not := func(levels int) []byte { // ResourceName.dynamic_parameter_constraints, not_constraints
		return append(part(1)([]byte("n")), part(2)(within(levels, part(4)))...)
	}
	structs := func(levels int) []byte { // Metadata.typed_filter_metadata is an Any, filter_metadata a Struct
		entry := func(b []byte) []byte { return part(1)(append(part(1)([]byte("k")), part(2)(b)...)) }
		value := func(b []byte) []byte { return entry(part(5)(b)) } // Value.struct_value
		return entry(within(levels, value))
	}
	garbage := []byte{0xff}
	notText := part(1)([]byte{0xff})
	for _, at := range []struct {
		what   string
		number protowire.Number // of the field in the response
		inSotW protowire.Number // 0: there is none
		parts  map[string][]byte
		good   []byte
	}{
		{"resource_errors", 9, 7, map[string][]byte{
			"nested too deep":      part(1)(not(200)),
			"garbage within":       append(part(1)(part(1)([]byte("n"))), part(2)(part(3)(garbage))...),
			"not UTF-8":            append(part(1)(part(1)([]byte("n"))), part(2)(part(2)([]byte{0xff}))...),
			"not UTF-8 in details": append(part(1)(part(1)([]byte("n"))), part(2)(part(3)(notText))...),
		}, part(1)(not(50))},
		{"removed_resource_names", 8, 0, map[string][]byte{
			"nested too deep": not(200),
			"garbage within":  append(part(1)([]byte("n")), part(2)(garbage)...),
			"not UTF-8":       append(part(1)([]byte("n")), part(2)(part(1)(notText))...),
		}, not(50)},
	} {
		for what, b := range at.parts {
			url := protowire.AppendString(protowire.AppendTag(nil, 4, protowire.BytesType), EndpointURL)
			if r, err := DecodeDelta(append(url, part(at.number)(b)...)); err == nil {
				t.Errorf("%s in %s of a delta response is taken: %v", what, at.what, r)
			}
			if at.inSotW != 0 {
				if r, err := DecodeSotW(append(url, part(at.inSotW)(b)...), nil); err == nil {
					t.Errorf("%s in %s of a SotW response is taken: %v", what, at.what, r)
				}
			}
			if _, err := DecodeDelta(append(url, part(at.number)(at.good)...)); err != nil {
				t.Errorf("%s: %v", at.what, err)
			}
		}
	}
	for what, extra := range map[string][]byte{
		"metadata nested too deep": part(9)(structs(100)),
		"garbage in metadata":      part(9)(garbage),
		"a name nested too deep":   part(8)(not(200)),
		"garbage in cache_control": part(7)(part(1)(garbage)[:1]),
	} {
		b := protowire.AppendString(protowire.AppendTag(nil, 4, protowire.BytesType), EndpointURL)
		b = protowire.AppendTag(append(b, part(2)(append(part(3)([]byte("bad")), extra...))...), 2, protowire.BytesType)
		b = protowire.AppendBytes(b, append(part(3)([]byte("good")), part(9)(structs(20))...))
		r, err := DecodeDelta(b)
		if err != nil {
			t.Errorf("%s: %v, expected only its resource to be invalid", what, err)
			continue
		}
		if len(r.Invalid) != 1 || r.Invalid[0].Name != "bad" || len(r.Resources) != 1 {
			t.Errorf("%s: %d resources are taken, invalid are %v", what, len(r.Resources), r.Invalid)
		}
	}
}
