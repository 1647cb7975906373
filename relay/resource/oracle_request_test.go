package resource

import (
	"maps"
	"reflect"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// checkSotWRequest and checkDeltaRequest hold the request decoders against the
// oracle.
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
		VersionInfo: got.Version, ResourceNames: got.Names, TypeUrl: got.TypeURL, ResponseNonce: got.Nonce,
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
		TypeUrl: got.TypeURL, ResponseNonce: got.Nonce, ResourceNamesSubscribe: got.Subscribe, ResourceNamesUnsubscribe: got.Unsubscribe,
		Node: nodeOf(t, got), ErrorDetail: statusOf(got, want.GetErrorDetail()),
		ResourceLocatorsSubscribe: want.GetResourceLocatorsSubscribe(), ResourceLocatorsUnsubscribe: want.GetResourceLocatorsUnsubscribe(),
	}
	for _, h := range got.Held {
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

// sameLocators also holds what is said about locators against protobuf.
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

func requestTwice(t rapid.TB, b []byte, decode func([]byte, *Request) error) (*Request, error) {
	t.Helper()
	first, second := Request{Names: []string{"left over"}}, Request{Rejected: true}
	err := decode(b, &first)
	scribbled := append([]byte(nil), b...)
	_ = decode(scribbled, &second)
	for i := range scribbled {
		scribbled[i] ^= 0xa5
	}
	if !reflect.DeepEqual(first, second) {
		t.Fatalf("the result refers to the input: %+v became %+v", first, second)
	}
	return &first, err
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

// statusOf fills what the relay does not read from full.
func statusOf(r *Request, full *status.Status) *status.Status {
	if !r.Rejected {
		return nil
	}
	s := &status.Status{Code: r.ErrorCode, Message: r.ErrorMessage, Details: full.GetDetails()}
	s.ProtoReflect().SetUnknown(full.ProtoReflect().GetUnknown())
	return s
}
