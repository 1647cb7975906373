package resource

import (
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
	if !proto.Equal(back, &want) || got.Locators != (len(want.GetResourceLocators()) > 0) {
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
	if !proto.Equal(back, &want) || got.Locators != locators {
		t.Fatalf("read %v, expected %v", back, &want)
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
