package resource

import (
	"maps"
	"reflect"
	"slices"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// checkSotWRequest and checkDeltaRequest compare the request decoders with the oracle.
func checkSotWRequest(t rapid.TB, b []byte) {
	t.Helper()
	got, err := requestTwice(t, b, DecodeSotWRequest)
	var want discoveryv3.DiscoveryRequest
	if proto.Unmarshal(b, &want) != nil {
		return
	}
	if err != nil {
		t.Fatalf("%v, but protobuf reads %v", err, &want)
	}
	back := &discoveryv3.DiscoveryRequest{
		VersionInfo: string(got.Version), ResourceNames: namesIn(t, got.Names), TypeUrl: got.TypeURL, ResponseNonce: string(got.Nonce),
		Node: nodeOf(t, got), ErrorDetail: statusOf(got, want.GetErrorDetail()), ResourceLocators: want.GetResourceLocators(),
	}
	back.ProtoReflect().SetUnknown(want.ProtoReflect().GetUnknown())
	if !proto.Equal(back, &want) || got.Located != (len(want.GetResourceLocators()) > 0) || !sameLocators(t, got.Locators, want.GetResourceLocators()) {
		t.Fatalf("read %v, expected %v", back, &want)
	}
}

func checkDeltaRequest(t rapid.TB, b []byte) {
	t.Helper()
	got, err := requestTwice(t, b, DecodeDeltaRequest)
	var want discoveryv3.DeltaDiscoveryRequest
	if proto.Unmarshal(b, &want) != nil {
		return
	}
	if err != nil {
		t.Fatalf("%v, but protobuf reads %v", err, &want)
	}
	back := &discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: got.TypeURL, ResponseNonce: string(got.Nonce),
		ResourceNamesSubscribe: namesIn(t, got.Subscribe), ResourceNamesUnsubscribe: namesIn(t, got.Unsubscribe),
		Node: nodeOf(t, got), ErrorDetail: statusOf(got, want.GetErrorDetail()),
		ResourceLocatorsSubscribe: want.GetResourceLocatorsSubscribe(), ResourceLocatorsUnsubscribe: want.GetResourceLocatorsUnsubscribe(),
	}
	if n := len(got.Held.Decode()); n != got.Held.Len() {
		t.Fatalf("%d of %d entries", n, got.Held.Len())
	}
	for _, h := range got.Held.Decode() {
		if back.InitialResourceVersions == nil {
			back.InitialResourceVersions = make(map[string]string)
		}
		back.InitialResourceVersions[h.Name] = h.Version
	}
	back.ProtoReflect().SetUnknown(want.ProtoReflect().GetUnknown())
	locators := len(want.GetResourceLocatorsSubscribe())+len(want.GetResourceLocatorsUnsubscribe()) > 0
	if !proto.Equal(back, &want) || got.Located != locators || !sameLocators(t, got.Locators, want.GetResourceLocatorsSubscribe()) {
		t.Fatalf("read %v, expected %v", back, &want)
	}
}

// sameLocators also compares the errors about locators with protobuf.
func sameLocators(t rapid.TB, got []Locator, want []*discoveryv3.ResourceLocator) bool {
	t.Helper()
	if len(got) != len(want) {
		return false
	}
	for i, l := range got {
		params := make(map[string]string)
		for _, p := range l.Params {
			params[p.Key] = p.Value
		}
		if l.Name != want[i].GetName() || len(params) != len(l.Params) || !maps.Equal(params, want[i].GetDynamicParameters()) {
			return false
		}
		var said discoveryv3.ResourceError
		unmarshal(t, l.NewError(12, "why").Raw, &said)
		equal(t, "name in the error", said.GetResourceName().GetName(), l.Name)
		equal(t, "code", said.GetErrorDetail().GetCode(), 12)
		equal(t, "message", said.GetErrorDetail().GetMessage(), "why")
		checkConstraints(t, said.GetResourceName().GetDynamicParameterConstraints(), l.Params)
	}
	return true
}

func checkConstraints(t rapid.TB, c *discoveryv3.DynamicParameterConstraints, params []Param) {
	t.Helper()
	var all []*discoveryv3.DynamicParameterConstraints
	switch {
	case len(params) == 0:
		equal(t, "constraints without parameters", c == nil, true)
	case len(params) == 1:
		all = append(all, c)
	default:
		all = c.GetAndConstraints().GetConstraints()
	}
	equal(t, "number of constraints", len(all), len(params))
	for i, p := range params {
		equal(t, "key", all[i].GetConstraint().GetKey(), p.Key)
		equal(t, "value", all[i].GetConstraint().GetValue(), p.Value)
		_, is := all[i].GetConstraint().GetConstraintType().(*discoveryv3.DynamicParameterConstraints_SingleConstraint_Value)
		equal(t, "is a value", is, true)
	}
}

// requestTwice checks that nothing of an earlier request remains, and that decoding does not write
// to its input.
func requestTwice(t rapid.TB, b []byte, decode func([]byte, *Request) error) (*Request, error) {
	t.Helper()
	first, second := Request{Names: ListNames("left over")}, Request{Rejected: true}
	before := slices.Clone(b)
	err := decode(b, &first)
	_ = decode(b, &second)
	if !reflect.DeepEqual(first, second) {
		t.Fatalf("%+v the first time, %+v the second", first, second)
	}
	equal(t, "input", string(b), string(before))
	return &first, err
}

// namesIn returns the names of a list, and checks its other methods.
func namesIn(t rapid.TB, l NameList) (names []string) {
	t.Helper()
	for n := range l.All() {
		names = append(names, string(n))
		equal(t, "has "+string(n), l.Has(string(n)), true)
	}
	equal(t, "number of names", l.Len(), len(names))
	equal(t, "has another", l.Has("\xff"), false)
	if len(names) > 0 {
		first := names[0]
		rest := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == first })
		equal(t, "without the first", slices.Equal(without(t, l, first), rest), true)
	}
	again := ListNames(names...)
	equal(t, "made again", slices.Equal(without(t, again, "\xff"), names), true)
	return names
}

func without(t rapid.TB, l NameList, name string) []string {
	t.Helper()
	names, err := l.Without(name)
	if err != nil {
		t.Fatalf("%v, but protobuf reads it", err)
	}
	return names
}

func nodeOf(t rapid.TB, r *Request) *corev3.Node {
	t.Helper()
	if r.Node == nil {
		return nil
	}
	n := new(corev3.Node)
	unmarshal(t, r.Node, n)
	return n
}

// statusOf fills the fields that the relay does not decode from full.
func statusOf(r *Request, full *status.Status) *status.Status {
	if !r.Rejected {
		return nil
	}
	s := &status.Status{Code: r.ErrorCode, Message: r.ErrorMessage, Details: full.GetDetails()}
	s.ProtoReflect().SetUnknown(full.ProtoReflect().GetUnknown())
	return s
}
