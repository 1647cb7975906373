package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// sources are the files that say what fields there are.
var sources = []string{"admin.go", "config.go", "listen.go", "tls.go", "limits.go", "authorize.go", "tier.go", "../aggregation/rules.go", "../authorize/policy.go"}

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

// TestDoc holds that docs/configuration.md describes all fields.
func TestDoc(t *testing.T) {
	golden(t, "../../docs/configuration.md", Doc())
	for _, l := range leaves(Default()) {
		if !strings.Contains(Doc(), "| `"+l.path+"` |") && strings.Contains(l.path, ".") {
			t.Errorf("the page lacks %s", l.path)
		}
	}
	for line := range strings.Lines(Doc()) {
		if strings.Contains(line, " |  |\n") && strings.HasPrefix(line, "| `") {
			t.Errorf("nothing is said in %s", line)
		}
	}
}

// schema compiles the schema.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("relay.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("relay.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// judge tells what the schema says of a file.
func judge(t *testing.T, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// TestSchema holds that the schema takes the default file and every example, and
// refuses mistakes of each kind.
func TestSchema(t *testing.T) {
	s := schema(t)
	files, err := filepath.Glob("../../deploy/examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, "default.yaml") {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := judge(t, s, data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, good := range []string{
		"authorize: any", "authorize: [{name: a, match: 'true'}]", "cache: {idle_size: 0}", "cache:\n", "listen: {compression: 16KiB}",
		"listen: {compression: false}", "drain: {time: 1m30s}", "origins: [{name: sds, types: [Secret], addresses: ['a:1']}]",
		"aggregation: {rules: [{name: all, key: node.cluster}]}",
	} {
		if err := judge(t, s, []byte(good)); err != nil {
			t.Errorf("%q is refused: %v", good, err)
		}
		if _, err := parseFile("x.yaml", []byte(good)); err != nil {
			t.Errorf("%q is refused by the program: %v", good, err)
		}
	}
	for _, bad := range []string{
		"lisen: {}", "listen: {addr: 'a:1'}", "listen: {max_names: many}", "origin: {variant: both}", "drain: {time: 5}", "cache: {idle_size: 5MB}",
		"origins: [{nam: x}]", "authorize: all", "listen: {v2: 'true'}", "log: {level: loud}", "origin: {addresses: 'a:1'}",
	} {
		if judge(t, s, []byte(bad)) == nil {
			t.Errorf("%q is taken", bad)
		}
		if _, err := parseFile("x.yaml", []byte(bad)); err == nil {
			t.Errorf("%q is taken by the program", bad)
		}
	}
}
