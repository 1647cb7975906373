package resource

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/extension/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"

	"xdsrelay/relay/resource/v2types"
)

// TestTypesAgainstDescriptors: every message of the table exists, and its name field is the one in
// the table.
func TestTypesAgainstDescriptors(t *testing.T) {
	for _, typ := range slices.Concat(Known(), KnownV2()) {
		d, err := filesOf(t, typ).FindDescriptorByName(protoreflect.FullName(strings.TrimPrefix(typ.URL, TypePrefix)))
		if err != nil {
			t.Errorf("%s: %v", typ.URL, err)
			continue
		}
		fields := d.(protoreflect.MessageDescriptor).Fields()
		if typ.NameField == 0 {
			if !typ.DeltaOnly() || typ.Service != nil && typ.Service.Stream != "" {
				t.Errorf("%s has no name field, so it has no SotW form", typ.URL)
			}
			continue
		}
		fd := fields.ByNumber(typ.NameField)
		if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() {
			t.Errorf("%s: field %d is no string", typ.URL, typ.NameField)
			continue
		}
		if name := string(fd.Name()); name != "name" && name != "cluster_name" {
			t.Errorf("%s: field %d is called %s", typ.URL, typ.NameField, name)
		}
	}
}

// filesOf returns the descriptors that include a type.
func filesOf(t *testing.T, typ *Type) *protoregistry.Files {
	t.Helper()
	if !typ.V2 {
		return protoregistry.GlobalFiles
	}
	files, err := v2types.Files()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestServicesAgainstDescriptors: A4, H1, J1: the services, their methods, their REST paths and
// their files are the real ones, and no method is missing.
func TestServicesAgainstDescriptors(t *testing.T) {
	for _, typ := range slices.Concat(Known(), KnownV2()) {
		s := typ.Service
		if s == nil {
			continue
		}
		fd, err := filesOf(t, typ).FindFileByPath(s.File)
		if err != nil {
			t.Errorf("%s: %v", s.File, err)
			continue
		}
		sd := fd.Services().ByName(protoreflect.FullName(s.Name).Name())
		if sd == nil || string(sd.FullName()) != s.Name {
			t.Errorf("%s does not declare %s", s.File, s.Name)
			continue
		}
		var want []string
		for i := range sd.Methods().Len() {
			want = append(want, string(sd.Methods().Get(i).Name()))
		}
		got := slices.DeleteFunc([]string{s.Stream, s.Delta, s.Fetch}, func(m string) bool { return m == "" })
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has methods %q, not %q", s.Name, want, got)
		}
		for _, m := range got {
			md := sd.Methods().ByName(protoreflect.Name(m))
			in, streams := protoreflect.Name("DiscoveryRequest"), m != s.Fetch
			if m == s.Delta {
				in = "DeltaDiscoveryRequest"
			}
			if md.Input().Name() != in || md.IsStreamingClient() != streams || md.IsStreamingServer() != streams {
				t.Errorf("%s.%s is not the method it should be", s.Name, m)
			}
			path := ""
			if rule, ok := proto.GetExtension(md.Options(), annotations.E_Http).(*annotations.HttpRule); ok {
				path = rule.GetPost()
			}
			if want := map[bool]string{true: s.REST}[m == s.Fetch]; path != want {
				t.Errorf("%s.%s is at %q, the table says %q", s.Name, m, path, want)
			}
		}
	}
}

// TestTable: the columns that no descriptor has, against table A-1.
func TestTable(t *testing.T) {
	full := []string{ListenerURL, ClusterURL, ScopedRouteURL}                                                        // A6
	wild := append([]string{VirtualHostURL}, full...)                                                                // B20
	inner := []string{ListenerURL, RouteURL, ClusterURL, EndpointURL, SecretURL}                                     // A3
	order := []string{ClusterURL, EndpointURL, LbEndpointURL, ListenerURL, ScopedRouteURL, RouteURL, VirtualHostURL} // E1
	last := -1
	for _, typ := range Known() {
		equal(t, typ.URL+" full", typ.FullState, slices.Contains(full, typ.URL))
		equal(t, typ.URL+" wild", typ.Wildcard, slices.Contains(wild, typ.URL))
		equal(t, typ.URL+" inner name", typ.NamedByBody(), slices.Contains(inner, typ.URL))
		if i := slices.Index(order, typ.URL); i >= 0 {
			equal(t, typ.URL+" order", typ.Order, i)
		} else if !strings.HasSuffix(typ.URL, "Collection") {
			equal(t, typ.URL+" order", typ.Order, len(order))
		}
		if typ.Order < last {
			t.Errorf("%s is out of order", typ.URL)
		}
		last = typ.Order
		if TypeOf(typ.URL) != typ {
			t.Errorf("%s is described twice", typ.URL)
		}
	}
}

// TestUnknownType: A1: any type URL is relayed, as the exact string.
func TestUnknownType(t *testing.T) {
	for _, url := range []string{"x.Y", "", "TYPE.googleapis.com/envoy.config.cluster.v3.Cluster", ClusterURL + " "} {
		typ := TypeOf(url)
		if typ.URL != url || typ.FullState || typ.Wildcard || typ.Service != nil || typ.DeltaOnly() || typ.Order != orderLast {
			t.Errorf("%q: %+v", url, typ)
		}
	}
	mine := Known()
	mine[0] = nil
	if Known()[0] == nil {
		t.Error("Known gives away its own slice")
	}
}

// TestHoldsSecrets: secrets are recognized in any version, and in lists; a type with a similar name
// is not a secret.
func TestHoldsSecrets(t *testing.T) {
	for _, typ := range slices.Concat(Known(), KnownV2()) {
		equal(t, typ.URL, HoldsSecrets(typ.URL), typ.URL == SecretURL || typ.URL == SecretV2URL)
	}
	for url, want := range map[string]bool{
		TypePrefix + "envoy.extensions.transport_sockets.tls.v9.Secret":           true,
		TypePrefix + "envoy.extensions.transport_sockets.tls.v3.SecretCollection": true,
		TypePrefix + "Secret":              true,
		"Secret":                           true,
		TypePrefix + "acme.v1.SecretAgent": false,
		TypePrefix + "acme.Secret.v1.Plan": false,
		"":                                 false,
	} {
		equal(t, url, HoldsSecrets(url), want)
	}
}
