package config

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const chart = "../../deploy/helm/xdsrelay"

// TestChartSchema: the schema of the Helm chart's values ends with that of the
// configuration, so that Helm refuses a field which the program would refuse.
func TestChartSchema(t *testing.T) {
	const file, mark = chart + "/values.schema.json", "\n  \"definitions\": {\n    \"config\": "
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	own, _, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s has no definitions", file)
	}
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	delete(schema, "$schema") // the drafts of both differ, in nothing that is used here
	shortenSchema(schema)
	b, err := json.MarshalIndent(schema, "    ", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, file, own+mark+string(b)+"\n  }\n}\n")
}

// shortenSchema takes out of a schema what says nothing of what is allowed.
func shortenSchema(schema map[string]any) {
	for _, name := range []string{"description", "default"} {
		if _, isField := schema[name].(map[string]any); !isField {
			delete(schema, name)
		}
	}
	for _, inner := range schema {
		if inner, ok := inner.(map[string]any); ok {
			shortenSchema(inner)
		}
	}
}

// TestChartLive: the Helm chart knows what a relay takes while it runs, for which it
// replaces no pods.
func TestChartLive(t *testing.T) {
	live := map[string]any{}
	for _, k := range keys() {
		if !k.live || k.kind == "section" || k.path == "aggregation.rules" || strings.Contains(k.path, "[]") {
			continue
		}
		at, parts := live, strings.Split(k.path, ".")
		for _, part := range parts[:len(parts)-1] {
			if at[part] == nil {
				at[part] = map[string]any{}
			}
			at = at[part].(map[string]any)
		}
		at[parts[len(parts)-1]] = "live"
	}
	if live["drain"] == nil || live["authorization"] == nil || live["limits"] == nil {
		t.Fatalf("only %v is live", live)
	}
	text, err := yaml.MarshalWithOptions(live, yaml.Indent(2))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, chart+"/files/live.yaml", "# What relays take while they run, made from the page of the configuration: a change of it\n"+
		"# restarts none. Only aggregation.rules is not here, since clients that are there keep their keys.\n"+string(text))
}
