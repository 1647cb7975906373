package resource

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	// Every message of table A-1, for the registry.
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/thrift_proxy/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	_ "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
)

// The oracle is the result of the real protobuf library for the same bytes.

// checkDelta compares DecodeDelta and AppendDelta with the oracle.
func checkDelta(t rapid.TB, b []byte) {
	t.Helper()
	got, err := decodeTwice(t, b, true)
	var want discoveryv3.DeltaDiscoveryResponse
	if proto.Unmarshal(b, &want) != nil {
		return // the relay may accept more: it does not decode everything
	}
	if want.GetTypeUrl() == "" {
		if err == nil {
			t.Fatal("a response without a type_url was accepted")
		}
		return
	}
	if err != nil {
		t.Fatalf("%v, but protobuf reads %v", err, &want)
	}
	equal(t, "type", got.Type.URL, want.GetTypeUrl())
	equal(t, "version", got.Version, want.GetSystemVersionInfo())
	equal(t, "nonce", got.Nonce, want.GetNonce())
	equal(t, "control plane", got.ControlPlane, want.GetControlPlane().GetIdentifier())
	removed := slices.Clone(want.GetRemovedResources())
	for i, n := range removed {
		removed[i] = cmp.Or(n, got.Type.OnlyName)
	}
	for _, n := range want.GetRemovedResourceNames() {
		if variantOf(t, n) == "" {
			removed = append(removed, n.GetName())
		}
	}
	equal(t, "removed", fmt.Sprintf("%q", got.Removed), fmt.Sprintf("%q", removed))
	equal(t, "number of removed names", len(got.RemovedNames), len(want.GetRemovedResourceNames()))
	for i, n := range want.GetRemovedResourceNames() {
		equal(t, "removed name", got.RemovedNames[i].Name, n.GetName())
		equal(t, "variant", got.RemovedNames[i].Variant == "", variantOf(t, n) == "")
	}
	checkErrors(t, got, want.GetResourceErrors())
	equal(t, "size", got.Size, len(b))

	valid, sure := checkResources(t, got, want.GetResources())
	if !sure {
		return
	}

	// The output is the input, unknown fields included (A7), except for the TTL if the client does
	// not support TTLs (F1).
	expect := &discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: want.GetSystemVersionInfo(), Nonce: want.GetNonce(), TypeUrl: want.GetTypeUrl(),
		RemovedResources: removed, RemovedResourceNames: want.GetRemovedResourceNames(),
		ResourceErrors: want.GetResourceErrors(), Resources: valid,
	}
	expect.ProtoReflect().SetUnknown(want.ProtoReflect().GetUnknown())
	if id := want.GetControlPlane().GetIdentifier(); id != "" {
		expect.ControlPlane = controlPlane(id)
	}
	for _, m := range []*Message{messageOf(got), timed(messageOf(got))} {
		var again discoveryv3.DeltaDiscoveryResponse
		unmarshal(t, AppendNonce(AppendDelta(nil, m), got.Nonce), &again)
		for i, r := range m.Resources {
			valid[i].Ttl = ttlProto(m.Lifetimes[r])
		}
		if !proto.Equal(&again, expect) {
			t.Fatalf("sent %v, expected %v", &again, expect)
		}
	}
}

// checkSotW compares DecodeSotW and AppendSotW with the oracle.
func checkSotW(t rapid.TB, b []byte) {
	t.Helper()
	got, err := decodeTwice(t, b, false)
	var want discoveryv3.DiscoveryResponse
	if proto.Unmarshal(b, &want) != nil {
		return
	}
	if want.GetTypeUrl() == "" {
		if err == nil {
			t.Fatal("a response without a type_url was accepted")
		}
		return
	}
	if err != nil {
		t.Fatalf("%v, but protobuf reads %v", err, &want)
	}
	equal(t, "type", got.Type.URL, want.GetTypeUrl())
	equal(t, "version", got.Version, want.GetVersionInfo())
	equal(t, "nonce", got.Nonce, want.GetNonce())
	equal(t, "control plane", got.ControlPlane, want.GetControlPlane().GetIdentifier())

	var wrapped []*discoveryv3.Resource
	for _, a := range want.GetResources() {
		r := &discoveryv3.Resource{Resource: a}
		if a.GetTypeUrl() == resourceWrapper && got.Type.URL != resourceWrapper { // C17
			r = new(discoveryv3.Resource)
			if proto.Unmarshal(a.GetValue(), r) != nil {
				r = nil
			} else {
				r.Version = "" // D1
			}
		}
		wrapped = append(wrapped, r)
	}
	valid, sure := checkResources(t, got, wrapped)
	if !sure {
		return
	}

	checkErrors(t, got, want.GetResourceErrors())
	expect := &discoveryv3.DiscoveryResponse{
		VersionInfo: want.GetVersionInfo(), Nonce: want.GetNonce(), TypeUrl: want.GetTypeUrl(), ResourceErrors: want.GetResourceErrors(),
	}
	if id := want.GetControlPlane().GetIdentifier(); id != "" {
		expect.ControlPlane = controlPlane(id)
	}
	for _, m := range []*Message{messageOf(got), timed(messageOf(got))} {
		var again discoveryv3.DiscoveryResponse
		unmarshal(t, AppendNonce(AppendSotW(nil, m), got.Nonce), &again)
		expect.Resources = nil
		for i, r := range valid {
			switch ttl := m.Lifetimes[m.Resources[i]]; {
			case r.GetResource() == nil:
			case ttl == 0:
				expect.Resources = append(expect.Resources, r.GetResource())
			default: // F2
				expect.Resources = append(expect.Resources, pack(t, &discoveryv3.Resource{Name: r.GetName(), Resource: r.GetResource(), Ttl: ttlProto(ttl)}))
			}
		}
		if !equalResponses(t, &again, expect) {
			t.Fatalf("sent %v, expected %v", &again, expect)
		}
	}
}

// equalResponses compares wrapped resources by their content: the order of their fields is free.
func equalResponses(t rapid.TB, a, b *discoveryv3.DiscoveryResponse) bool {
	t.Helper()
	if len(a.GetResources()) != len(b.GetResources()) {
		return false
	}
	for i, x := range a.GetResources() {
		y := b.GetResources()[i]
		if x.GetTypeUrl() == resourceWrapper && y.GetTypeUrl() == resourceWrapper {
			var in, out discoveryv3.Resource
			unmarshal(t, x.GetValue(), &in)
			unmarshal(t, y.GetValue(), &out)
			if !proto.Equal(&in, &out) {
				return false
			}
			y.Value = x.GetValue()
		}
	}
	return proto.Equal(a, b)
}

// timed returns m for a client that supports TTLs.
func timed(m *Message) *Message {
	m.Lifetimes = make(map[*Resource]time.Duration)
	for _, r := range m.Resources {
		if r.TTL > 0 {
			m.Lifetimes[r] = r.TTL
		}
	}
	return m
}

func ttlProto(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// variantOf returns the constraints that distinguish variants of a name.
func variantOf(t rapid.TB, n *discoveryv3.ResourceName) string {
	t.Helper()
	return string(marshal(t, n.GetDynamicParameterConstraints()))
}

func checkErrors(t rapid.TB, got *Response, want []*discoveryv3.ResourceError) {
	t.Helper()
	equal(t, "number of errors", len(got.Errors), len(want))
	for i, e := range want {
		a := got.Errors[i]
		equal(t, "name", a.Name, e.GetResourceName().GetName())
		equal(t, "code", a.Code, e.GetErrorDetail().GetCode())
		equal(t, "variant", a.Variant == "", variantOf(t, e.GetResourceName()) == "")
		var again discoveryv3.ResourceError
		unmarshal(t, a.Raw, &again)
		if !proto.Equal(&again, e) { // A7
			t.Fatalf("error %v, expected %v", &again, e)
		}
	}
}

// decodeTwice decodes b and a copy that is overwritten afterwards: a result that refers to its
// input would differ.
func decodeTwice(t rapid.TB, b []byte, delta bool) (*Response, error) {
	t.Helper()
	first, err := decode(b, delta, false, nil)
	scribbled := append([]byte(nil), b...)
	second, err2 := decode(scribbled, delta, false, nil)
	for i := range scribbled {
		scribbled[i] ^= 0xa5
	}
	//nolint:govet // the errors compared are our own, made of texts
	if !reflect.DeepEqual(first, second) || (err == nil) != (err2 == nil) {
		t.Fatalf("the result refers to the input: %+v became %+v", first, second)
	}
	if err != nil || delta {
		return first, err
	}
	earlier := make(map[string]*Resource)
	for _, r := range first.Resources {
		earlier[r.Key] = r
	}
	for _, places := range []int{0, len(first.Resources)} {
		again, err := DecodeSotW(b, func(*Type) Earlier {
			return Earlier{Get: func(name []byte) *Resource { return earlier[string(name)] }, At: func(place int) *Resource { return first.Resources[place] }, Places: places}
		})
		//nolint:govet // the errors compared are our own, made of texts
		if err != nil || !reflect.DeepEqual(first, again) {
			t.Fatalf("when it was received before, %+v became %+v, %v", first, again, err)
		}
	}
	return first, err
}

// checkResources compares the decoded resources of a response, and returns the valid ones as they
// should be sent. sure is false if the oracle cannot judge one of them; a nil in want is one that
// it cannot decode.
func checkResources(t rapid.TB, got *Response, want []*discoveryv3.Resource) (valid []*discoveryv3.Resource, sure bool) {
	t.Helper()
	equal(t, "number of resources", len(got.Resources)+len(got.Invalid), len(want))
	rest, seen := got.Resources, make(map[string]bool)
	for _, w := range want {
		name, verdict := nameOf(got.Type, w)
		switch {
		case verdict == unsure:
			return nil, false
		case verdict == bad, name == "", seen[name]: // B29
			continue
		}
		if len(rest) == 0 || rest[0].Name != name {
			t.Fatalf("%q is missing or out of order: have %q, invalid %v", name, names(rest), got.Invalid)
		}
		checkResource(t, rest[0], w)
		out := proto.CloneOf(w)
		out.Name, out.Version, out.Ttl = name, rest[0].Version, nil
		valid = append(valid, out)
		rest = rest[1:]
		seen[name] = true
	}
	if len(rest) > 0 {
		t.Fatalf("%q should not have been accepted", names(rest))
	}
	return valid, true
}

func checkResource(t rapid.TB, r *Resource, want *discoveryv3.Resource) {
	t.Helper()
	if want.GetVersion() != "" {
		equal(t, "version of "+r.Name, r.Version, want.GetVersion()) // D14
	}
	equal(t, "presence of a version", r.Version != "" || r.Heartbeat(), true)
	equal(t, "aliases of "+r.Name, fmt.Sprintf("%q", r.Aliases), fmt.Sprintf("%q", want.GetAliases()))
	ttl, _ := ttlOf(want.GetTtl())
	equal(t, "ttl of "+r.Name, r.TTL, ttl)
	equal(t, "presence of a body in "+r.Name, r.Body != nil, want.GetResource() != nil)
	equal(t, "endpoints of "+r.Name, r.Endpoints, endpointsFor(r.Name, want.GetResource()))
	if r.Body != nil {
		var body anypb.Any
		unmarshal(t, r.Body, &body)
		if !proto.Equal(&body, want.GetResource()) {
			t.Fatalf("body of %q: %v, expected %v", r.Name, &body, want.GetResource())
		}
	}
}

type verdict int

const (
	good verdict = iota
	bad
	unsure // protobuf rejects a part that the relay does not decode, or does not know the type
)

// nameOf returns the name that a resource should have.
func nameOf(typ *Type, r *discoveryv3.Resource) (string, verdict) {
	if r == nil {
		return "", unsure
	}
	if _, ok := ttlOf(r.GetTtl()); !ok {
		return "", bad
	}
	name := r.GetName()
	if name == "" {
		name = r.GetResourceName().GetName()
	}
	if r.GetResource() == nil {
		return cmp.Or(name, typ.OnlyName), good
	}
	if r.GetResource().GetTypeUrl() != typ.URL {
		return "", bad
	}
	mt, err := protoregistry.GlobalTypes.FindMessageByURL(typ.URL)
	if err != nil {
		return "", unsure
	}
	body := mt.New()
	if proto.Unmarshal(r.GetResource().GetValue(), body.Interface()) != nil {
		return "", unsure
	}
	inner := ""
	if typ.NameField != 0 {
		fd := body.Descriptor().Fields().ByNumber(typ.NameField)
		if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() {
			return "", unsure
		}
		inner = body.Get(fd).String()
	}
	name = cmp.Or(name, inner, typ.OnlyName)
	if typ.NamedByBody() && name != inner { // A3
		return "", bad
	}
	return name, good
}

func ttlOf(d *durationpb.Duration) (time.Duration, bool) {
	switch {
	case d == nil:
		return 0, true
	case d.CheckValid() != nil || d.GetSeconds() < 0 || d.GetNanos() < 0:
		return 0, false
	}
	return min(d.AsDuration(), math.MaxInt64), true
}

// endpointsFor is E3 with the real message.
func endpointsFor(name string, a *anypb.Any) string {
	var c clusterv3.Cluster
	if a.GetTypeUrl() != ClusterURL || proto.Unmarshal(a.GetValue(), &c) != nil || c.GetType() != clusterv3.Cluster_EDS {
		return ""
	}
	if s := c.GetEdsClusterConfig().GetServiceName(); s != "" {
		return s
	}
	return name
}

func names(rs []*Resource) (out []string) {
	for _, r := range rs {
		out = append(out, r.Name)
	}
	return out
}

func unmarshal(t rapid.TB, b []byte, m proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatalf("%T: %v in %x", m, err, b)
	}
}

func marshal(t rapid.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func equal[T comparable](t rapid.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v, expected %v", what, got, want)
	}
}

// messageOf returns the response to send with the content of r.
func messageOf(r *Response) *Message {
	m := &Message{Type: r.Type, Version: r.Version, ControlPlane: r.ControlPlane, Resources: r.Resources, Removed: r.Removed, Extra: r.Extra}
	for _, a := range r.RemovedNames {
		m.RemovedNames = append(m.RemovedNames, a.Raw)
	}
	for _, a := range r.Errors {
		m.Errors = append(m.Errors, a.Raw)
	}
	return m
}
