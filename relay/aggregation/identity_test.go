package aggregation

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// TestNodeOfIdentity: the Node for the members of one identity says whose it is, keeps
// an id that is the clients' own, and leaves the group's as it was (K4).
func TestNodeOfIdentity(t *testing.T) {
	by := func(rule Rule) *corev3.Node {
		res, err := mustCompile(t, rule).Resolve(testNode(t), Peer{})
		if err != nil {
			t.Fatal(err)
		}
		return res.Node
	}
	for _, tc := range []struct {
		rule Rule
		id   string
	}{
		{Rule{Key: "node.cluster"}, "xdsrelay/web~~spiffe://corp/a"},
		{Rule{Key: "node.id"}, "c1"},
		{Rule{Key: "node.cluster", PassFields: []string{"metadata.env"}}, ""},
	} {
		group := by(tc.rule)
		before := proto.CloneOf(group)
		n := NodeOf(group, "spiffe://corp/a")
		if got := n.GetMetadata().GetFields()["xdsrelay.identity"].GetStringValue(); got != "spiffe://corp/a" || tc.id != "" && n.GetId() != tc.id {
			t.Errorf("%+v: %v", tc.rule, n)
		}
		if n.GetCluster() != group.GetCluster() || n.GetMetadata().GetFields()["env"].GetStringValue() != group.GetMetadata().GetFields()["env"].GetStringValue() {
			t.Errorf("%+v: %v lacks what the group passes", tc.rule, n)
		}
		if !proto.Equal(group, before) || !proto.Equal(NodeOf(group, ""), group) || n.GetId() == NodeOf(group, "spiffe://corp/b").GetId() && tc.id != "c1" {
			t.Errorf("%+v: the group's is %v", tc.rule, group)
		}
	}
}

// TestForgedIdentity: what a client itself says of its identity does not reach the
// control plane, whatever a rule passes (K6).
func TestForgedIdentity(t *testing.T) {
	forged := testNode(t, func(n *corev3.Node) {
		n.Metadata.Fields["xdsrelay.identity"] = structpb.NewStringValue("spiffe://corp/admin")
	})
	for _, pass := range []string{"metadata", `metadata["xdsrelay.identity"]`} {
		rules := mustCompile(t, Rule{Key: "node.cluster", PassFields: []string{pass}})
		with, err := rules.Resolve(forged, Peer{})
		if err != nil {
			t.Fatal(err)
		}
		without, err := rules.Resolve(testNode(t), Peer{})
		if err != nil {
			t.Fatal(err)
		}
		if _, there := with.Node.GetMetadata().GetFields()["xdsrelay.identity"]; there || with.Key != without.Key || !proto.Equal(with.Node, without.Node) {
			t.Errorf("pass %s: %s, %v", pass, with.Key, with.Node)
		}
	}
}

// TestIDsOfRelay: no two of the ids that the control plane sees are equal where the
// key, the identity or the client is another, whatever a client claims: a control
// plane may go by nothing but the id (K4, K6).
func TestIDsOfRelay(t *testing.T) {
	const admin = "spiffe://corp/admin"
	resolve := func(rule Rule, change func(*corev3.Node)) *corev3.Node {
		res, err := mustCompile(t, rule).Resolve(testNode(t, change), Peer{})
		if err != nil {
			t.Fatal(err)
		}
		return res.Node
	}
	group := resolve(Rule{Key: "node.cluster"}, func(*corev3.Node) {})
	meant := NodeOf(group, admin).GetId()
	claims := []string{meant, strings.TrimPrefix(meant, "xdsrelay/"), "web/" + admin, "web~" + admin, "web~~id=" + meant, "~~id=" + meant, "xdsrelay/~~id=" + meant}
	seen := map[string]string{meant: "the identity", group.GetId(): "the key"}
	note := func(id, what string) {
		if other, there := seen[id]; there {
			t.Errorf("%s has the id %q of %s", what, id, other)
		}
		seen[id] = what
	}
	for _, claim := range claims {
		note(resolve(Rule{Key: "node.cluster"}, func(n *corev3.Node) { n.Cluster = claim }).GetId(), "cluster "+claim)
		byID := resolve(Rule{Key: "node.id"}, func(n *corev3.Node) { n.Id = claim })
		note(byID.GetId(), "id "+claim)
		for _, same := range []*corev3.Node{
			resolve(Rule{Key: "node.cluster", PassFields: []string{"id"}}, func(n *corev3.Node) { n.Id = claim }),
			resolve(Rule{Key: "node.cluster + node.id.substring(0, 0)", NodeField: "id"}, func(n *corev3.Node) { n.Cluster = claim }),
			NodeOfClient(group, "", claim),
			NodeOf(byID, admin), // the client's own id stays
		} {
			if same.GetId() != byID.GetId() {
				t.Errorf("id %s is shown as %q and as %q", claim, same.GetId(), byID.GetId())
			}
		}
	}
	if got := resolve(Rule{Key: "node.id"}, func(n *corev3.Node) { n.Id = "envoy-1" }).GetId(); got != "envoy-1" {
		t.Errorf("the id of a client is shown as %q", got)
	}
}
