package aggregation

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/errors.golden")

// TestCompileErrors holds every message a user can get for a wrong rule.
func TestCompileErrors(t *testing.T) {
	var out strings.Builder
	for _, tc := range []struct {
		name  string
		rules []Rule
	}{
		{"unknown node field", []Rule{{Name: "edge", Key: "node.clustr"}}},
		{"unknown locality field", []Rule{{Name: "edge", Key: `"x/" + node.locality.region_id`}}},
		{"unknown peer field", []Rule{{Key: "peer.spiffe"}}},
		{"unknown variable", []Rule{{Key: "cluster"}}},
		{"second line", []Rule{{Key: "node.cluster +\n\tnode.regoin"}}},
		{"syntax", []Rule{{Key: `node.cluster + `}}},
		{"wrong key type", []Rule{{Key: "node.cluster == ''"}}},
		{"wrong match type", []Rule{{Match: "node.cluster", Key: "node.cluster"}}},
		{"wrong argument", []Rule{{Match: "node.id.startsWith(1)", Key: "node.cluster"}}},
		{"bad regexp", []Rule{{Match: "node.id.matches('(')", Key: "node.cluster"}}},
		{"no key", []Rule{{Name: "a"}}},
		{"whole node", []Rule{{Key: "string(dyn(node))"}}},
		{"field that cannot be passed", []Rule{{Key: "node.extensions[0].name"}}},
		{"build metadata", []Rule{{Key: "node.user_agent_build_version.metadata.x"}}},
		{"loop variable", []Rule{{Key: "node.client_features.map(node, node)[0]"}}},
		{"order of a map", []Rule{{Match: "node.metadata.map(k, k)[0] == 'a'", Key: "node.cluster"}}},
		{"pattern from the client", []Rule{{Match: "peer.common_name.matches(node.id)", Key: "node.cluster"}}},
		{"replacement from the client", []Rule{{Key: "node.cluster.replace('', node.id)"}}},
		{"join", []Rule{{Key: "node.client_features.join('-')"}}},
		{"format", []Rule{{Key: "'%s'.format([node.cluster])"}}},
		{"stray token", []Rule{{Key: "node.cluster node.id"}}},
		{"long line", []Rule{{Key: "'" + strings.Repeat("x", 150) + "' + node.clustr + '" + strings.Repeat("y", 150) + "'"}}},
		{"pass: unknown", []Rule{{Key: "node.cluster", PassFields: []string{"cluster", "locality.city"}}}},
		{"pass: with node.", []Rule{{Key: "node.cluster", PassFields: []string{"node.id"}}}},
		{"pass: no field", []Rule{{Key: "node.cluster", PassFields: []string{"id + node.cluster"}}}},
		{"pass: list element", []Rule{{Key: "node.cluster", PassFields: []string{"metadata.l[0]"}}}},
		{"pass: empty", []Rule{{Key: "node.cluster", PassFields: []string{""}}}},
		{"pass: features", []Rule{{Key: "node.cluster", PassFields: []string{"client_features"}}}},
		{"pass: extensions", []Rule{{Key: "node.cluster", PassFields: []string{"extensions"}}}},
		{"same name", []Rule{{Name: "a", Key: "node.id"}, {Name: "a", Key: "node.id"}}},
		{"bad name", []Rule{{Name: "a\nb", Key: "node.id"}}},
		{"two mistakes", []Rule{{Name: "a", Match: "node.x", Key: "node.y"}, {Name: "b", Key: "1"}}},
		{"too long", []Rule{{Key: `"` + strings.Repeat("x", maxExprChars) + `"`}}},
	} {
		_, err := Compile(tc.rules, Options{})
		if err == nil {
			t.Errorf("%s: compiles", tc.name)
			continue
		}
		if _, ok := errors.AsType[*CompileError](err); !ok {
			t.Errorf("%s: %T is no CompileError", tc.name, err)
		}
		text := err.Error()
		if len(text) > 2000 {
			text = text[:400] + "…"
		}
		out.WriteString("== " + tc.name + "\n" + text + "\n\n")
	}
	const golden = "testdata/errors.golden"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("messages changed; run with -update and read the difference\n%s", out.String())
	}
}
