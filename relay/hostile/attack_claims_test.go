package hostile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/bench/content"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// claims are attacks by clients that say they are somebody else, or ask for what is
// somebody else's.
var claims = []attack{
	{name: "forged nodes", run: forgedNodes},
	{name: "the node changes", run: nodeChanges},
	{name: "metadata of another node of the tier", run: peerMetadata},
	{name: "names of other keys", run: namesOfOthers},
	{name: "huge nodes", run: hugeNodes},
	{name: "reconnecting with what others hold", run: heldOfOthers},
}

// forgedNodes claims nodes that make no key.
func forgedNodes(t *testing.T, s *stage) {
	cc := s.dial(t)
	for _, tc := range []struct {
		node  *corev3.Node
		words []string
	}{
		{nil, []string{"node"}},
		{&corev3.Node{}, []string{"node id"}},
		{xdstest.Node("x", ""), []string{"rule default", "key"}},
		{xdstest.Node("x", strings.Repeat("k", 1000)), []string{"512"}},
	} {
		c := open(t, cc, deltaMethod)
		_ = c.send(&discoveryv3.DeltaDiscoveryRequest{Node: tc.node, TypeUrl: content.ClusterURL})
		c.refused(t, codes.InvalidArgument, tc.words...)
	}
	// Names that look like the key of another, in ways that a relay may fold
	// together, are keys of their own.
	for _, near := range []string{theKey + " ", " " + theKey, theKey + "\n", theKey + "/", strings.ToUpper(theKey), theKey + "\u200b", "*", "../" + theKey, theKey + "\x00"} {
		c := open(t, cc, deltaMethod)
		_ = c.send(hello("x", near, content.ClusterURL, "*", content.Name(content.ClusterURL, 0, 0)))
		barrier(t, cc)
		c.onlyOf(t, near, true)
		c.close()
	}
}

// nodeChanges says it is another after the first request: that counts for nothing.
func nodeChanges(t *testing.T, s *stage) {
	for _, method := range []string{deltaMethod, sotwMethod} {
		c := open(t, s.dial(t), method)
		if method == deltaMethod {
			_ = c.send(hello("x", theKey, content.ClusterURL, "*"))
			_ = c.send(hello("x", theOther, content.EndpointURL, content.Name(content.EndpointURL, 0, 0), content.Name(content.EndpointURL, 1, 0)))
		} else {
			_ = c.send(&discoveryv3.DiscoveryRequest{Node: xdstest.Node("x", theKey), TypeUrl: content.ClusterURL})
			_ = c.send(&discoveryv3.DiscoveryRequest{
				Node: xdstest.Node("x", theOther), TypeUrl: content.EndpointURL,
				ResourceNames: []string{content.Name(content.EndpointURL, 0, 0), content.Name(content.EndpointURL, 1, 0)},
			})
		}
		xdstest.Eventually(t, "a response for each type", func() bool { return c.count() >= 2 || c.over() })
		if c.over() {
			t.Errorf("the stream ended with %v", c.err)
		}
		c.onlyOf(t, theKey, method == deltaMethod)
		c.close()
	}
}

// peerMetadata names the key of others in what nodes of a tier tell one another,
// which means nothing on a port for clients.
func peerMetadata(t *testing.T, s *stage) {
	c := open(t, s.dial(t), deltaMethod,
		resource.PeerKeyHeader, theOther, resource.PeerNodeHeader, "node-2", resource.PeerLegHeader, "default", "authorization", "Bearer token")
	_ = c.send(hello("x", theKey, content.ClusterURL, "*"))
	var r discoveryv3.DeltaDiscoveryResponse
	c.respond(t, 1, &r)
	if len(r.GetResources()) != spec.Clusters {
		t.Errorf("%d clusters, expected the %d of the client's own key", len(r.GetResources()), spec.Clusters)
	}
	c.onlyOf(t, theKey, true)
	c.close()
}

// namesOfOthers asks for what other keys have, and other authorities.
func namesOfOthers(t *testing.T, s *stage) {
	var names []string
	for k := 1; k < spec.Keys; k++ {
		for i := range spec.Clusters {
			names = append(names, content.Name(content.EndpointURL, k, i))
		}
	}
	for i := range 50 {
		names = append(names, fmt.Sprintf("xdstp://other-%d/envoy.config.endpoint.v3.ClusterLoadAssignment/%s", i, names[0]))
	}
	before := s.origin.Stats()
	cc := s.dial(t)
	for _, method := range []string{deltaMethod, sotwMethod} {
		c := open(t, cc, method)
		if method == deltaMethod {
			_ = c.send(hello("x", theKey, content.EndpointURL, names...))
			var r discoveryv3.DeltaDiscoveryResponse
			c.respond(t, 1, &r)
			if len(r.GetResources()) > 0 {
				t.Errorf("it was sent %d resources", len(r.GetResources()))
			}
		} else {
			_ = c.send(&discoveryv3.DiscoveryRequest{Node: xdstest.Node("x", theKey), TypeUrl: content.EndpointURL, ResourceNames: names})
			barrier(t, cc)
			if c.count() > 0 {
				t.Errorf("it was sent %d responses", c.count())
			}
		}
		c.onlyOf(t, theKey, method == deltaMethod)
		c.close()
	}
	if now := s.origin.Stats(); now.StreamsTotal != before.StreamsTotal {
		t.Errorf("the origin has seen %d more streams", now.StreamsTotal-before.StreamsTotal)
	}
}

// hugeNodes says much about itself. Names that are too long to be kept are refused, and
// what is kept of the rest is bounded.
func hugeNodes(t *testing.T, s *stage) {
	cc := s.dial(t)
	fill := strings.Repeat("m", maxReceive*3/4)
	metadata, err := structpb.NewStruct(map[string]any{"fill": fill})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range []*corev3.Node{{Id: fill, Cluster: theKey}, {Id: "x", Cluster: fill}} {
		c := open(t, cc, deltaMethod)
		_ = c.send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: content.ClusterURL})
		c.refused(t, codes.InvalidArgument, "node", fmt.Sprint(aggregation.MaxNodeName))
	}
	// One more than there may be, and made before the stream is open: it has to come in
	// the time of a first request.
	parts := slices.Repeat([]*corev3.Extension{{}}, 20_001)
	for range size(20, 200) {
		c := open(t, cc, deltaMethod)
		_ = c.send(&discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: "x", Cluster: theKey, Extensions: parts}, TypeUrl: content.ClusterURL})
		c.refused(t, codes.ResourceExhausted, "parts")
	}
	var calls []*call
	for range size(20, 200) {
		for _, node := range []*corev3.Node{
			{Id: "x", Cluster: theKey, Metadata: metadata},
			{Id: "x", Cluster: theKey, UserAgentName: fill},
			{Id: "x", Cluster: theKey, Locality: &corev3.Locality{Zone: fill}},
			{Id: "x", Cluster: theKey, ClientFeatures: []string{fill}},
		} {
			c := open(t, cc, deltaMethod)
			_ = c.send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: content.ClusterURL})
			calls = append(calls, c)
		}
	}
	for _, c := range calls {
		xdstest.Eventually(t, "an answer", func() bool { return c.count() > 0 || c.over() })
	}
	s.keepsLittle(t, len(calls))
	for _, c := range calls {
		c.close()
	}
}

// heldOfOthers says that it holds what it should not know, to learn what there is.
func heldOfOthers(t *testing.T, s *stage) {
	c := open(t, s.dial(t), deltaMethod)
	held := map[string]string{}
	for k := range spec.Keys {
		for i := range spec.Clusters {
			held[content.Name(content.ClusterURL, k, i)] = "1"
		}
	}
	m := hello("x", theKey, content.ClusterURL, "*")
	m.InitialResourceVersions = held
	_ = c.send(m)
	var r discoveryv3.DeltaDiscoveryResponse
	c.respond(t, 1, &r)
	if len(r.GetResources()) != spec.Clusters {
		t.Errorf("%d clusters, expected the %d of its own key", len(r.GetResources()), spec.Clusters)
	}
	c.onlyOf(t, theKey, true)
	c.close()
}
