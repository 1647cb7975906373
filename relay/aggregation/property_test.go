package aggregation

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"xdsrelay/relay/xdstest/property"
)

// Small alphabets, rich in what marks, seams and escapes are made of: accidents
// must be likely for the properties to mean something.
var (
	smallText = rapid.StringOfN(rapid.SampledFrom([]rune("ab/~+%7E.")), 1, 4, -1)
	mayBeText = rapid.OneOf(smallText, rapid.Just(""))
	someNames = rapid.SampledFrom([]string{"env", "team", "a.b"})
)

func drawValue(t *rapid.T, depth int) *structpb.Value {
	switch k := rapid.IntRange(0, 6).Draw(t, "kind"); {
	case k == 0:
		return structpb.NewNullValue()
	case k == 1:
		return structpb.NewBoolValue(rapid.Bool().Draw(t, "bool"))
	case k == 2:
		return structpb.NewNumberValue(rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, math.NaN()}).Draw(t, "number"))
	case k == 3 && depth > 0:
		var l structpb.ListValue
		for range rapid.IntRange(0, 2).Draw(t, "len") {
			l.Values = append(l.Values, drawValue(t, depth-1))
		}
		return structpb.NewListValue(&l)
	case k == 4 && depth > 0:
		return structpb.NewStructValue(drawStruct(t, depth-1))
	case k == 5:
		return &structpb.Value{} // what a careless client sends
	}
	return structpb.NewStringValue(mayBeText.Draw(t, "text"))
}

func drawStruct(t *rapid.T, depth int) *structpb.Struct {
	s := newStruct()
	for range rapid.IntRange(0, 3).Draw(t, "fields") {
		s.Fields[someNames.Draw(t, "name")] = drawValue(t, depth)
	}
	return s
}

func drawNode(t *rapid.T) *corev3.Node {
	n := &corev3.Node{
		Id: smallText.Draw(t, "id"), Cluster: mayBeText.Draw(t, "cluster"),
		UserAgentName: rapid.SampledFrom([]string{"", "envoy", UserAgent}).Draw(t, "agent"),
	}
	if rapid.Bool().Draw(t, "has locality") {
		n.Locality = &corev3.Locality{Region: mayBeText.Draw(t, "region"), Zone: mayBeText.Draw(t, "zone")}
	}
	if rapid.Bool().Draw(t, "has metadata") {
		n.Metadata = drawStruct(t, 2)
	}
	switch rapid.IntRange(0, 2).Draw(t, "version") {
	case 1:
		n.UserAgentVersionType = &corev3.Node_UserAgentVersion{UserAgentVersion: mayBeText.Draw(t, "agent version")}
	case 2:
		n.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{Metadata: drawStruct(t, 1)}}
	}
	n.ClientFeatures = rapid.SliceOfN(rapid.SampledFrom([]string{"xds.config.resource-in-sotw", "x", "y", "any-struct",
		"envoy.config.require-any-fields-contain-struct", "envoy.lb.does_not_support_overprovisioning"}), 0, 3).Draw(t, "features")
	return n
}

// keyExprs covers each kind of mark, and expressions that forget much.
var keyExprs = []string{
	`node.cluster`, `node.id`, `node.locality.zone`, `node.user_agent_version`,
	`has(node.metadata.env) ? string(node.metadata.env) : node.cluster`,
	`has(node.metadata.env) ? node.metadata.env : "k"`,
	`node.cluster + "/" + node.locality.zone`, `node.cluster + node.id`,
	`"k"`, `node.metadata == {} ? "k" : "l"`, `node.metadata.size() > 1 ? "k" : "l"`,
	`string(node.metadata.size())`, `"env" in node.metadata ? "k" : "k"`, `string("env" in node.metadata)`,
	`regex.replace(node.id, "[a/]", "")`,
	`string(has(node.locality)) + "~id"`, `peer.common_name`,
}

var passLists = [][]string{nil, {"metadata"}, {"metadata.env"}, {"locality"}, {"id"}, {"user_agent_name"},
	{"user_agent_version", "metadata.team.env"}, {"user_agent_build_version"}}

// compileEach compiles a rule set for every expression with every pass list.
func compileEach(t testing.TB) (all []*Rules) {
	for _, key := range keyExprs {
		for _, pass := range passLists {
			all = append(all, mustCompile(t, Rule{Key: key, PassFields: pass}))
		}
		all = append(all, mustCompile(t, Rule{Key: key, NodeField: "id"}), mustCompile(t, Rule{Key: key, NodeField: "cluster", PassFields: []string{"id"}}))
	}
	return all
}

func nodeBytes(t testing.TB, n *corev3.Node) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// K4, K6: equal keys mean byte-identical upstream Nodes, also across rule sets.
func TestEqualKeysMeanEqualNodes(t *testing.T) {
	all := compileEach(t)
	type found struct{ bytes, how string }
	seen := map[Key]found{} // over all runs: the more, the likelier an accident
	equal := 0
	property.CheckUntil(t, func() bool { return equal > 0 }, func(rt *rapid.T) {
		node, peer := drawNode(rt), Peer{CommonName: smallText.Draw(rt, "cn")}
		for i, rs := range all {
			res, err := rs.Resolve(node, peer)
			if err != nil {
				continue
			}
			now := found{nodeBytes(t, res.Node), fmt.Sprintf("%+v over %s", rs.rules[0].config, nodeJSON(node))}
			old, ok := seen[res.Key]
			if ok {
				equal++
			}
			if ok && old.bytes != now.bytes {
				rt.Fatalf("key %s (rule %d) means two Nodes:\n%s\n%s", res.Key, i, old.how, now.how)
			}
			seen[res.Key] = now
		}
	})
}

// The same Node gives the same group however its protobuf was put together, on
// every compilation of the rules and whatever the relay's version (K4).
func TestResolveIsDeterministic(t *testing.T) {
	one, two := compileEach(t), compileEach(t)
	rapid.Check(t, func(rt *rapid.T) {
		node := drawNode(rt)
		i := rapid.IntRange(0, len(one)-1).Draw(rt, "rule")
		again := proto.Clone(node).(*corev3.Node)
		slices.Reverse(again.ClientFeatures)
		a, err1 := one[i].Resolve(node, Peer{})
		b, err2 := two[i].Resolve(again, Peer{})
		if (err1 == nil) != (err2 == nil) || a.Key != b.Key {
			rt.Fatalf("%s, %v and %s, %v", a.Key, err1, b.Key, err2)
		}
		if err1 == nil && nodeBytes(t, a.Node) != nodeBytes(t, b.Node) {
			rt.Fatalf("Nodes differ:\n%s\n%s", nodeJSON(a.Node), nodeJSON(b.Node))
		}
	})
}

// K4: what the key does not name cannot be seen upstream. The rule names cluster,
// zone and metadata.env; everything else of the second Node is drawn anew.
func TestIsolation(t *testing.T) {
	rs := mustCompile(t,
		Rule{Match: `node.id.startsWith("a") && !has(node.metadata.team)`, Key: `node.cluster + "/" + node.locality.zone`, PassFields: []string{"metadata.env"}},
		Rule{Key: `node.cluster + node.locality.zone + (node.user_agent_name == "envoy" ? "" : "")`, PassFields: []string{"metadata.env"}})
	groups := 0
	property.CheckUntil(t, func() bool { return groups > 0 }, func(rt *rapid.T) {
		a, b := drawNode(rt), drawNode(rt)
		b.Cluster = a.Cluster
		if a.Locality == nil && b.Locality != nil {
			b.Locality.Zone = ""
		} else if a.Locality != nil {
			b.Locality = &corev3.Locality{Zone: a.Locality.Zone, SubZone: "other"}
		}
		delete(b.GetMetadata().GetFields(), "env")
		if env, ok := a.GetMetadata().GetFields()["env"]; ok {
			if b.Metadata == nil {
				b.Metadata = newStruct()
			}
			b.Metadata.Fields["env"] = env
		}
		b.ClientFeatures = a.ClientFeatures
		b.DynamicParameters = nil
		x, err1 := rs.Resolve(a, Peer{Address: "1.2.3.4:5"})
		y, err2 := rs.Resolve(b, Peer{Address: "6.7.8.9:0"})
		if err1 != nil || err2 != nil || x.Rule != y.Rule {
			return
		}
		groups++
		if x.Key != y.Key || nodeBytes(t, x.Node) != nodeBytes(t, y.Node) {
			rt.Fatalf("%s and %s:\n%s\n%s", x.Key, y.Key, nodeJSON(x.Node), nodeJSON(y.Node))
		}
	})
}

func TestEscapeIsInjective(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := rapid.String().Draw(rt, "a"), rapid.String().Draw(rt, "b")
		if rapid.Bool().Draw(rt, "nearby") {
			a, b = smallText.Draw(rt, "a"), smallText.Draw(rt, "b")
		}
		if (escape(a) == escape(b)) != (a == b) {
			rt.Fatalf("%q and %q: %q, %q", a, b, escape(a), escape(b))
		}
		if strings.ContainsAny(escape(a), "~+") {
			rt.Fatalf("%q keeps a separator: %q", a, escape(a))
		}
	})
}

// K4: a protobuf may carry unknown fields inside metadata; they are in no key, so they
// must not reach the control plane either.
func TestUnknownFieldsDoNotPass(t *testing.T) {
	rs := mustCompile(t, Rule{Key: "node.metadata.env", PassFields: []string{"metadata", "locality"}})
	clean := testNode(t)
	dirty := proto.Clone(clean).(*corev3.Node)
	extra := []byte{0x9a, 0x06, 0x01, 'x'} // field 99
	for _, m := range []proto.Message{dirty, dirty.Metadata, dirty.Metadata.Fields["env"],
		dirty.Metadata.Fields["team"].GetStructValue(), dirty.Metadata.Fields["groups"].GetListValue(), dirty.Locality} {
		m.ProtoReflect().SetUnknown(extra)
	}
	a, err1 := rs.Resolve(clean, Peer{})
	b, err2 := rs.Resolve(dirty, Peer{})
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if a.Key != b.Key || nodeBytes(t, a.Node) != nodeBytes(t, b.Node) {
		t.Error("unknown fields changed the group or reached its Node")
	}
}
