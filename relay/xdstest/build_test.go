package xdstest

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestSynthetic: every type has synthetic resources, named as the builders say,
// equal for equal salts and different otherwise.
func TestSynthetic(t *testing.T) {
	for _, s := range services[1:] {
		one, again, two := Synthetic(s.typeURL, "n", 1), Synthetic(s.typeURL, "n", 1), Synthetic(s.typeURL, "n", 2)
		if TypeOf(one) != s.typeURL {
			t.Errorf("synthetic %s is a %s", s.typeURL, TypeOf(one))
		}
		if !proto.Equal(one, again) || proto.Equal(one, two) {
			t.Errorf("synthetic %s: salt 1 and 2 give %v and %v", s.typeURL, one, two)
		}
		if s.typeURL != LbEndpointType && NameOf(one) != "n" {
			t.Errorf("name of synthetic %s is %q", s.typeURL, NameOf(one))
		}
		if s.typeURL != LbEndpointType && s.typeURL != VirtualHostType && nameInBody(Any(one)) != "n" {
			t.Errorf("name on the wire of synthetic %s is %q", s.typeURL, nameInBody(Any(one)))
		}
	}
}

// TestBuildersAreValid holds the builders to the constraints that Envoy checks.
func TestBuildersAreValid(t *testing.T) {
	all := GRPCService("svc", "127.0.0.1:1")
	for _, s := range services[1:] {
		all = append(all, Synthetic(s.typeURL, "n", 1))
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
		name := nameInBody(body)
		m, err := body.UnmarshalNew()
		if err != nil {
			return
		}
		if want := m.ProtoReflect().Get(m.ProtoReflect().Descriptor().Fields().ByNumber(protoreflect.FieldNumber(1))).String(); name != want {
			t.Fatalf("name %q, decoded %q", name, want)
		}
	})
}
