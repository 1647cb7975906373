package verify

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestChartReadme: the README of the chart ends with a table of all values, made from the comments
// of values.yaml. A comment that begins with "# --" describes the value below it, as for helm-docs.
// Each value has a description of its own, or is part of a value with one.
func TestChartReadme(t *testing.T) {
	text, err := os.ReadFile(chartDir + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	rows, missing := valueRows("", doc.Content[0], false)
	for _, path := range missing {
		t.Errorf("values.yaml does not describe %s", path)
	}
	const mark = "## Values\n"
	file := chartDir + "/README.md"
	readme, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	own, _, found := strings.Cut(string(readme), mark)
	if !found {
		t.Fatalf("%s has no heading Values", file)
	}
	want := own + mark + "\nThis table is generated from [values.yaml](values.yaml).\n\n| Value | Type | Default | Description |\n|---|---|---|---|\n" + strings.Join(rows, "")
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(readme) != want {
		t.Errorf("%s differs from values.yaml: go test . -run TestChartReadme -update", file)
	}
}

// valueRows returns the rows of a mapping, and the paths without a description.
func valueRows(path string, values *yaml.Node, described bool) (rows, missing []string) {
	for i := 0; i < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		text, has := description(key.HeadComment)
		if has {
			rows = append(rows, fmt.Sprintf("| %#q | %s | %#q | %s |\n", at, typeOf(value), defaultOf(value), text))
		}
		switch {
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			inner, more := valueRows(at, value, described || has)
			rows, missing = append(rows, inner...), append(missing, more...)
		case !has && !described:
			missing = append(missing, at)
		}
	}
	return rows, missing
}

// description returns the part of a comment that begins with "# --".
func description(comment string) (string, bool) {
	var all []string
	for line := range strings.SplitSeq(comment, "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(line, "#"))
		if text, begins := strings.CutPrefix(line, "-- "); begins {
			all = []string{text}
		} else if len(all) > 0 {
			all = append(all, line)
		}
	}
	return strings.ReplaceAll(strings.TrimSpace(strings.Join(all, " ")), "|", `\|`), len(all) > 0
}

func typeOf(value *yaml.Node) string {
	switch value.Kind {
	case yaml.MappingNode:
		return "object"
	case yaml.SequenceNode:
		return "list"
	}
	return map[string]string{"!!bool": "boolean", "!!int": "integer", "!!str": "string"}[value.Tag]
}

func defaultOf(value *yaml.Node) string {
	var v any
	if err := value.Decode(&v); err != nil {
		return err.Error()
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// TestValueRows: a value without a description is found, and one inside a described value is not.
func TestValueRows(t *testing.T) {
	for text, want := range map[string]string{
		"# -- All.\na: 1\n": "| `a` | integer | `1` | All. |\n",
		"# A section.\na:\n  # -- One\n  # | two.\n  b: x\n": "| `a.b` | string | `\"x\"` | One \\| two. |\n",
		"# -- All.\na: {b: [1]}\n":                           "| `a` | object | `{\"b\":[1]}` | All. |\n",
		"a: true\n":                                          "missing a",
		"a:\n  b: {}\n  # -- One.\n  c: 1\n":                 "| `a.c` | integer | `1` | One. |\nmissing a.b",
	} {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		rows, missing := valueRows("", doc.Content[0], false)
		got := strings.Join(rows, "")
		if len(missing) > 0 {
			got += "missing " + strings.Join(missing, " ")
		}
		if got != want {
			t.Errorf("%q has\n%q, expected\n%q", text, got, want)
		}
	}
}
