package verify

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// printed returns what a command of the program prints.
func printed(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out
}

// sameFile holds that a file is as it would be written now; -update writes it.
func sameFile(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the program says (%v): go test . -run %s -update", file, err, t.Name())
	}
}

// TestChartKnowsTheConfiguration: the schema of the values ends with that of the
// configuration, so that Helm refuses a field which the program would refuse.
func TestChartKnowsTheConfiguration(t *testing.T) {
	const file, mark = chartDir + "/values.schema.json", "\n  \"definitions\": {\n    \"config\": "
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	own, _, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s has no definitions", file)
	}
	var schema map[string]any
	if err := json.Unmarshal(printed(t, "config", "schema"), &schema); err != nil {
		t.Fatal(err)
	}
	delete(schema, "$schema") // the drafts of both differ, in nothing that is used here
	shorten(schema)
	b, err := json.MarshalIndent(schema, "    ", "  ")
	if err != nil {
		t.Fatal(err)
	}
	sameFile(t, file, []byte(own+mark+string(b)+"\n  }\n}\n"))
}

// shorten takes out of a schema what says nothing of what is allowed.
func shorten(schema map[string]any) {
	for _, name := range []string{"description", "default"} {
		if _, ok := schema[name].(map[string]any); !ok {
			delete(schema, name)
		}
	}
	for _, inner := range schema {
		if inner, ok := inner.(map[string]any); ok {
			shorten(inner)
		}
	}
}

// TestChartKnowsWhatIsLive: files/live.yaml names what a relay takes while it runs, as
// the page of the configuration says.
func TestChartKnowsWhatIsLive(t *testing.T) {
	live := map[string]any{}
	section := ""
	for line := range strings.Lines(string(printed(t, "config", "doc"))) {
		if m := regexp.MustCompile(`^#+ (\S+)`).FindStringSubmatch(line); m != nil {
			section = m[1]
		}
		field := section
		if m := regexp.MustCompile("^\\| `(\\S+)`").FindStringSubmatch(line); m != nil {
			field = m[1]
		}
		if !strings.HasSuffix(strings.TrimRight(line, " |\n"), "*live*") || field == "aggregation.rules" {
			continue
		}
		at, path := live, strings.Split(field, ".")
		for _, name := range path[:len(path)-1] {
			if at[name] == nil {
				at[name] = map[string]any{}
			}
			at = at[name].(map[string]any)
		}
		at[path[len(path)-1]] = "live"
	}
	if live["drain"] != "live" || live["authorize"] != "live" || live["limits"] == nil {
		t.Fatalf("the page says that %v is live", live)
	}
	text, err := yaml.Marshal(live)
	if err != nil {
		t.Fatal(err)
	}
	sameFile(t, chartDir+"/files/live.yaml", append([]byte("# What relays take while they run, made from `xdsrelay config doc`: a change of it restarts\n"+
		"# none. Only aggregation.rules is not here, since clients that are there keep their keys.\n"), text...))
}
