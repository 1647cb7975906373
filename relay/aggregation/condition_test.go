package aggregation

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"
)

func mustCondition(t testing.TB, src string) *Condition {
	t.Helper()
	env, err := NewEnv(0)
	if err != nil {
		t.Fatal(err)
	}
	c, issues := env.Condition(src)
	if len(issues) > 0 {
		t.Fatalf("%s: %v", src, issues)
	}
	return c
}

// identityFields are those that somebody may keep anyway: id, cluster, locality.
const identityFields = 1<<1 | 1<<2 | 1<<4

// TestWhatIsReadIsEnough: an expression gives the same for a Node and for what it
// reads of it, whatever the Node is like.
func TestWhatIsReadIsEnough(t *testing.T) {
	var conditions []*Condition
	for _, src := range []string{
		`node.cluster == "a"`,
		`node.metadata.a == "x"`,
		`has(node.metadata.a)`,
		`has(node.metadata.a.b)`,
		`!has(node.metadata.a.b) && listener == ""`,
		`node.metadata.a.b == "x" || node.metadata["b"] == "x"`,
		`node.metadata[node.metadata.a] == "x"`,
		`node.metadata.exists(k, k == "b")`,
		`"x" in node.metadata.a`,
		`node.metadata.a[0] == "x"`,
		`has(node.metadata.a.b.a) || node.id == "x"`,
		`node.extensions.exists(e, e.name == "x")`,
		`node.user_agent_build_version.version.major_number > 0u`,
		`has(node.locality) && node.locality.zone == "x"`,
		`size(node.listening_addresses) > 0`,
		`node == node && peer.authenticated || node.id == "x"`,
		`dyn(node).cluster == "x"`,
	} {
		conditions = append(conditions, mustCondition(t, src))
	}
	value := func(depth int) *rapid.Generator[any] { return metadataValue(depth) }
	rapid.Check(t, func(t *rapid.T) {
		md := map[string]any{}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "x", "z"}), func(s string) string { return s }).Draw(t, "names") {
			md[name] = value(3).Draw(t, name)
		}
		s, err := structpb.NewStruct(md)
		if err != nil {
			t.Fatal(err)
		}
		short := rapid.SampledFrom([]string{"", "a", "x"})
		n := &corev3.Node{Id: short.Draw(t, "id"), Cluster: short.Draw(t, "cluster"), Metadata: s}
		if rapid.Bool().Draw(t, "locality") {
			n.Locality = &corev3.Locality{Zone: short.Draw(t, "zone")}
		}
		if rapid.Bool().Draw(t, "extensions") {
			n.Extensions = []*corev3.Extension{{Name: short.Draw(t, "extension")}}
		}
		if rapid.Bool().Draw(t, "no metadata") {
			n.Metadata = nil
		}
		for _, set := range []uint64{0, identityFields} {
			for i, c := range conditions {
				kept := &corev3.Node{}
				if set != 0 {
					kept.Id, kept.Cluster, kept.Locality = n.Id, n.Cluster, n.Locality
				}
				if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal([]byte(c.Reads().Extract(n, set)), kept); err != nil {
					t.Fatal(err)
				}
				want, wantErr := c.Matches(n, Peer{})
				got, gotErr := c.Matches(kept, Peer{})
				if want != got || (wantErr == nil) != (gotErr == nil) {
					t.Fatalf("condition %d is %t, %v for the Node %v, and %t, %v for what is read of it, %v", i, want, wantErr, n, got, gotErr, kept)
				}
			}
		}
	})
}

// metadataValue draws a value with so many levels.
func metadataValue(depth int) *rapid.Generator[any] {
	leaf := rapid.Custom(func(t *rapid.T) any {
		return rapid.SampledFrom([]any{"x", "a", "b", 1.0, true, nil, []any{"x"}, []any{}, map[string]any{}}).Draw(t, "leaf")
	})
	if depth == 0 {
		return leaf
	}
	inner := rapid.Custom(func(t *rapid.T) any {
		m := map[string]any{}
		for _, name := range []string{"a", "b"} {
			if rapid.Bool().Draw(t, "has "+name) {
				m[name] = metadataValue(depth-1).Draw(t, name)
			}
		}
		return m
	})
	return rapid.OneOf(leaf, inner)
}

// TestWithin: fields are found in others and in a set, and only there.
func TestWithin(t *testing.T) {
	of := func(src string) Fields { return mustCondition(t, src).Reads() }
	cluster, ab, a := of(`node.cluster == "x"`), of(`node.metadata.a.b == "x"`), of(`has(node.metadata.a)`)
	whole, extensions := of(`dyn(node).cluster == "x"`), of(`size(node.extensions) > 0`)
	const metadata = 1 << 3
	for i, tc := range []struct {
		f, g Fields
		set  uint64
		want bool
	}{
		{cluster, Fields{}, 0, false},
		{cluster, Fields{}, identityFields, true},
		{cluster, cluster, 0, true},
		{ab, a, 0, true},
		{a, ab, 0, false},
		{ab, Fields{}, metadata, true},
		{ab, Fields{}, identityFields, false},
		{ab, whole, 0, true},
		{whole, ab, metadata, false},
		{extensions, cluster, identityFields | metadata, false},
		{cluster.And(ab), cluster.And(a), 0, true},
		{cluster.And(a), cluster.And(ab), 0, false},
	} {
		if got := tc.f.Within(tc.g, tc.set); got != tc.want {
			t.Errorf("%d: %t, want %t", i, got, tc.want)
		}
	}
	if got := cluster.Extract(&corev3.Node{Cluster: "x"}, identityFields); got != "" {
		t.Errorf("%q is kept twice", got)
	}
	if mustCondition(t, `node.cluster == "x"`).ReadsClient() || !mustCondition(t, `listener == node.cluster`).ReadsClient() || !mustCondition(t, `"x" in peer.uris`).ReadsClient() {
		t.Error("a condition does not know whether it looks at the client")
	}
}

// TestTied: a pattern of a rule about access says what the whole of a text is, however
// it is put together.
func TestTied(t *testing.T) {
	env, err := NewEnv(0)
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]bool{
		`^a$`: true, `\Aa\z`: true, `^(a|b)$`: true, `^a$|^b$`: true, `(^a$)`: true, `^(?:a|b)+$`: true, `(?i)^a$`: true,
		`a`: false, `^a`: false, `a$`: false, `^a|b$`: false, `^(a)|b$`: false, `^a|(b)$`: false, `(^a)|(b$)`: false,
		`(?m)^a$`: false, `^(?m)a$`: false, `^a\$`: false, `^a$?`: false, `^*a$`: false, `^`: false, `$`: false, ``: false,
	} {
		_, issues := env.Condition("peer.spiffe_id.matches(r'" + pattern + "')")
		if (len(issues) == 0) != want {
			t.Errorf("%s: %v", pattern, issues)
		}
	}
}
