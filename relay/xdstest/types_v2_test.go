package xdstest

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdsclient"
)

// TestV2: a resource of version 2 is that of version 3 under another type, which
// has the same properties and services of its own.
func TestV2(t *testing.T) {
	c := Cluster("c", 1)
	a := V2(c)
	back := &clusterv3.Cluster{}
	if err := proto.Unmarshal(a.Value, back); err != nil || !proto.Equal(c, back) || a.TypeUrl != ClusterV2Type || xdsclient.NameInBody(a) != "c" {
		t.Errorf("%v, %v", a, err)
	}
	for _, v2 := range []string{ListenerV2Type, RouteV2Type, ScopedRouteV2Type, VirtualHostV2Type, ClusterV2Type, EndpointV2Type, SecretV2Type, RuntimeV2Type} {
		v3 := xdsclient.V3TypeOf(v2)
		if v3 == v2 || V2TypeOf(v3) != v2 || xdsclient.V3TypeOf(v3) != v3 ||
			FullState(v2) != FullState(v3) || WildcardCapable(v2) != WildcardCapable(v3) {
			t.Errorf("%s and %s differ", v2, v3)
		}
		two, three := Variants(v2), Variants(v3)
		if len(two) != len(three) {
			t.Fatalf("%v and %v", two, three)
		}
		for i := range two {
			if !strings.Contains(two[i].Method(), "v2.") || !two[i].V2 || two[i].Delta != three[i].Delta || two[i].String() != three[i].String()+"-v2" {
				t.Errorf("%v (%s) and %v", two[i], two[i].Method(), three[i])
			}
		}
	}
	if V2TypeOf(ExtensionConfigType) != "" || xdsclient.V3TypeOf(ExtensionConfigType) != ExtensionConfigType {
		t.Error("extension configurations are of version 2")
	}
}
