package config

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// sources are the files that say what fields there are.
var sources = []string{"admin.go", "config.go", "listener.go", "downstream.go", "tls.go", "limits.go", "authorization.go", "tier.go", "rollout.go", "../aggregation/rules.go", "../authorize/policy.go"}

// TestComments holds that what the program says of fields is what the code says.
func TestComments(t *testing.T) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(fieldDocs(t, sources...)); err != nil {
		t.Fatal(err)
	}
	golden(t, "comments.json", b.String())
}

// TestCommentsOfTwins holds that structs of the same name in two packages keep their own
// comments: a rule of authorize requires match, a rule of aggregation does not.
func TestCommentsOfTwins(t *testing.T) {
	for path, required := range map[string]bool{"aggregation.rules[].match": false, "authorization.rules[].match": true} {
		_, row, found := strings.Cut(Doc(), "`"+path+"` | ")
		row, _, _ = strings.Cut(row, "\n")
		if !found || strings.Contains(row, "Required") != required {
			t.Errorf("the page says of %s: %q; required: %v", path, row, required)
		}
	}
}

// TestDoc holds that docs/reference/configuration.md describes all fields.
func TestDoc(t *testing.T) {
	golden(t, "../../docs/reference/configuration.md", Doc())
	for _, l := range leaves(Default()) {
		if !strings.Contains(Doc(), "| <a id=\""+l.path+"\"></a>`"+l.path+"` |") {
			t.Errorf("the page lacks %s", l.path)
		}
	}
	anchors := map[string]bool{}
	for _, k := range keys() {
		if k.doc == "" {
			t.Errorf("%s has no description", k.path)
		}
		if a := anchorOf(k.path); anchors[a] {
			t.Errorf("two keys have the anchor %s", a)
		} else {
			anchors[a] = true
		}
	}
}

// TestSchemaCases holds that the program accepts and refuses the files of
// testdata/schema.yaml. deploy/verify/schema holds the schema to the same ones.
func TestSchemaCases(t *testing.T) {
	data, err := os.ReadFile("testdata/schema.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases struct{ Good, Bad []string }
	if err := yaml.UnmarshalWithOptions(data, &cases, yaml.DisallowUnknownField()); err != nil {
		t.Fatal(err)
	}
	if len(cases.Good) == 0 || len(cases.Bad) == 0 {
		t.Fatalf("testdata/schema.yaml has %d good and %d bad files, expected some of each", len(cases.Good), len(cases.Bad))
	}
	for _, good := range cases.Good {
		if _, err := parseFile("x.yaml", []byte(good)); err != nil {
			t.Errorf("%q is refused: %v", good, err)
		}
	}
	for _, bad := range cases.Bad {
		if _, err := parseFile("x.yaml", []byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
