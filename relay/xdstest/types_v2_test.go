package xdstest

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"
)

// TestV2: a resource of version 2 is that of version 3 under another type, which
// has the same properties and services of its own.
func TestV2(t *testing.T) {
	c := Cluster("c", 1)
	a := V2(c)
	back := &clusterv3.Cluster{}
	if err := proto.Unmarshal(a.Value, back); err != nil || !proto.Equal(c, back) || a.TypeUrl != ClusterV2Type || nameInBody(a) != "c" {
		t.Errorf("%v, %v", a, err)
	}
	for _, v := range versions {
		if inV3(v.v2) != v.v3 || V2TypeOf(v.v3) != v.v2 || !isV2(v.v2) || isV2(v.v3) ||
			FullState(v.v2) != FullState(v.v3) || WildcardCapable(v.v2) != WildcardCapable(v.v3) {
			t.Errorf("%s and %s differ", v.v2, v.v3)
		}
		two, three := Variants(v.v2), Variants(v.v3)
		if len(two) != len(three) {
			t.Fatalf("%v and %v", two, three)
		}
		for i := range two {
			if !strings.Contains(two[i].Method(), "v2.") || !two[i].V2 || two[i].Delta != three[i].Delta || two[i].String() != three[i].String()+"-v2" {
				t.Errorf("%v (%s) and %v", two[i], two[i].Method(), three[i])
			}
		}
	}
	if V2TypeOf(ExtensionConfigType) != "" || isV2(ExtensionConfigType) {
		t.Error("extension configurations are of version 2")
	}
}
