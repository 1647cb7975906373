package resource

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

const cds = "xdstp://a/envoy.config.cluster.v3.Cluster"

// decodeForeign decodes one resource of type url with the given body.
func decodeForeign(t *testing.T, url, name string, body proto.Message) *Response {
	t.Helper()
	r, err := DecodeDelta(marshal(t, &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: url, Resources: []*discoveryv3.Resource{{Name: name, Version: "1", Resource: pack(t, body)}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRedirectsAndLists: a redirect may replace any body, and a list of resources the body of a
// name that is one of a list. They are forwarded unchanged, have no endpoints, and no SotW form
// (G8, D8).
func TestRedirectsAndLists(t *testing.T) {
	redirect := &xdscorev3.ResourceLocator{Id: "b", Authority: "b", ResourceType: "envoy.config.cluster.v3.Cluster"}
	list := &clusterv3.ClusterCollection{Entries: &xdscorev3.CollectionEntry{
		ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{Locator: redirect},
	}}
	for _, c := range []struct {
		what, url, name string
		body            proto.Message
		ok              bool
	}{
		{"a redirect", ClusterURL, cds + "/x", redirect, true},
		{"a redirect of a plain name", EndpointURL, "x", redirect, true},
		{"a redirect of a list", clusterListURL, cds + "Collection/x", redirect, true},
		{"a redirect without a name", ClusterURL, "", redirect, false},
		{"a list", clusterListURL, cds + "Collection/x", list, true},
		{"a list where its members are", ClusterURL, cds + "Collection/x", list, true},
		{"a list under the name of a member", ClusterURL, cds + "/x", list, false},
		{"a list under a plain name", ClusterURL, "x", list, false},
		{"another type", ClusterURL, cds + "/x", &endpointv3.ClusterLoadAssignment{ClusterName: cds + "/x"}, false},
	} {
		r := decodeForeign(t, c.url, c.name, c.body)
		if !c.ok {
			equal(t, c.what+": invalid", len(r.Invalid), 1)
			continue
		}
		if len(r.Resources) != 1 {
			t.Errorf("%s: %v", c.what, r.Invalid)
			continue
		}
		res := r.Resources[0]
		equal(t, c.what+": name", res.Name, c.name)
		equal(t, c.what+": endpoints", res.Endpoints, "")
		equal(t, c.what+": body", bytes.Equal(res.Body, marshal(t, pack(t, c.body))), true)
		m := &Message{Type: r.Type, Resources: r.Resources}
		if c.url == clusterListURL {
			continue // SotW clients cannot request the type
		}
		equal(t, c.what+": on SotW", len(AppendSotW(nil, m)), len(AppendSotW(nil, &Message{Type: r.Type})))
	}
}

// TestKeys: resources and references to them use canonical names as keys, but keep the spelling of
// the control plane (G1).
func TestKeys(t *testing.T) {
	const spelled, canonical = cds + "/x?b=2&a=%31", cds + "/x?a=1&b=2"
	r := decodeForeign(t, ClusterURL, spelled, &clusterv3.Cluster{
		Name:                 canonical, // A3: the same name
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{ServiceName: eds + "e?b=2&a=1"},
	})
	if len(r.Resources) != 1 {
		t.Fatal(r.Invalid)
	}
	equal(t, "name", r.Resources[0].Name, spelled)
	equal(t, "key", r.Resources[0].Key, canonical)
	equal(t, "endpoints", r.Resources[0].Endpoints, eds+"e?a=1&b=2")
	equal(t, "digest of two spellings", New(Resource{Name: spelled}).Member() == New(Resource{Name: canonical}).Member(), true) // K11

	twice, err := DecodeDelta(marshal(t, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: EndpointURL, Resources: []*discoveryv3.Resource{
		{Name: eds + "x?b=2&a=1", Aliases: []string{eds + "y?b=&a="}}, {Name: eds + "x?a=1&b=2"},
	}}))
	if err != nil || len(twice.Resources) != 1 || len(twice.Invalid) != 1 { // B29
		t.Fatalf("%+v, %v: expected one resource, and one that stands there again", twice, err)
	}
	equal(t, "alias", twice.Resources[0].Aliases[0], eds+"y?a=&b=")
}
