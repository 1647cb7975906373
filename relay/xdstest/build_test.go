package xdstest

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"xdsrelay/relay/xdsclient"
)

// TestSynthetic: every type has synthetic resources, named as the builders say,
// equal for equal salts and different otherwise.
func TestSynthetic(t *testing.T) {
	for _, typeURL := range xdsclient.ServiceTypes() {
		if xdsclient.V3TypeOf(typeURL) != typeURL {
			continue
		}
		one, again, two := Synthetic(typeURL, "n", 1), Synthetic(typeURL, "n", 1), Synthetic(typeURL, "n", 2)
		if TypeOf(one) != typeURL {
			t.Errorf("synthetic %s is a %s", typeURL, TypeOf(one))
		}
		if !proto.Equal(one, again) || proto.Equal(one, two) {
			t.Errorf("synthetic %s: salt 1 and 2 give %v and %v", typeURL, one, two)
		}
		if typeURL != LbEndpointType && NameOf(one) != "n" {
			t.Errorf("name of synthetic %s is %q", typeURL, NameOf(one))
		}
		if typeURL != LbEndpointType && typeURL != VirtualHostType && xdsclient.NameInBody(Any(one)) != "n" {
			t.Errorf("name on the wire of synthetic %s is %q", typeURL, xdsclient.NameInBody(Any(one)))
		}
	}
}

// TestBuildersAreValid holds the builders to the constraints that Envoy checks.
func TestBuildersAreValid(t *testing.T) {
	all := GRPCService("svc", "127.0.0.1:1")
	for _, typeURL := range xdsclient.ServiceTypes() {
		if xdsclient.V3TypeOf(typeURL) != typeURL {
			continue
		}
		all = append(all, Synthetic(typeURL, "n", 1))
	}
	for _, m := range all {
		v, ok := m.(interface{ ValidateAll() error })
		if !ok {
			t.Fatalf("%T has no constraints", m)
		}
		if err := v.ValidateAll(); err != nil {
			t.Errorf("%T: %v", m, err)
		}
	}
}

// FuzzNameInBody: reading a name never trips over bad bytes, and agrees with
// decoding wherever that works.
func FuzzNameInBody(f *testing.F) {
	f.Add(Any(Cluster("a", 0)).GetValue())
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		body := Any(Cluster("", 0))
		body.Value = b
		name := xdsclient.NameInBody(body)
		m, err := body.UnmarshalNew()
		if err != nil {
			return
		}
		if want := m.ProtoReflect().Get(m.ProtoReflect().Descriptor().Fields().ByNumber(protoreflect.FieldNumber(1))).String(); name != want {
			t.Fatalf("name %q, decoded %q", name, want)
		}
	})
}
