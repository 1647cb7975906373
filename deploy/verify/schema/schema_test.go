package schema

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

const (
	repository = "../../.."
	// program is what `make build` has built.
	program = repository + "/bin/xdsrelay"
)

// compile returns the schema that the program prints.
func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := exec.Command(program, "config", "schema").Output()
	if err != nil {
		t.Fatalf("xdsrelay config schema: %v", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
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

// validate applies the schema to a file.
func validate(t *testing.T, s *jsonschema.Schema, data []byte) error {
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

// TestSchema holds that the schema accepts the default file and every configuration in deploy, and
// refuses mistakes of each kind.
func TestSchema(t *testing.T) {
	s := compile(t)
	for _, name := range []string{
		"relay/config/default.yaml", "deploy/compose/relay.yaml", "deploy/compose/relay.tls.yaml", "deploy/relay.production.yaml",
		"deploy/kustomize/base/relay.yaml", "deploy/kustomize/overlays/production/relay.yaml",
	} {
		data, err := os.ReadFile(filepath.Join(repository, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	data, err := os.ReadFile(repository + "/relay/config/testdata/schema.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases struct{ Good, Bad []string }
	if err := yaml.UnmarshalStrict(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases.Good) == 0 || len(cases.Bad) == 0 {
		t.Fatalf("%d good and %d bad files, expected some of each", len(cases.Good), len(cases.Bad))
	}
	for _, good := range cases.Good {
		if err := validate(t, s, []byte(good)); err != nil {
			t.Errorf("%q is refused: %v", good, err)
		}
	}
	for _, bad := range cases.Bad {
		if validate(t, s, []byte(bad)) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
