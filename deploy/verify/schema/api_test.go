package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// apiPage is the description of the JSON API, and goldenAnswers are real answers of its endpoints.
const (
	apiPage       = repository + "/docs/reference/openapi.yaml"
	goldenAnswers = repository + "/cmd/xdsrelay/testdata/golden/*/admin_*.txt"
)

// openAPI is the part of the page that answers are compared with.
type openAPI struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		Responses map[string]struct {
			Content map[string]struct{ Example any }
		}
	}
}

// closed returns a schema in which objects have no fields but those that it lists.
func closed(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = closed(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = closed(v[name])
		}
		if _, ok := v["properties"].(map[string]any); ok && v["type"] == "object" {
			v["additionalProperties"] = false
		}
	}
	return v
}

// readAPI returns the page, and a compiler that has it as api.json.
func readAPI(t *testing.T) (page openAPI, c *jsonschema.Compiler) {
	t.Helper()
	text, err := os.ReadFile(apiPage)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(asJSON, &page); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	c = jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("api.json", closed(doc)); err != nil {
		t.Fatal(err)
	}
	return page, c
}

// answerForm is the beginning of an answer in a golden file.
var answerForm = regexp.MustCompile(`(?m)^=== (GET|POST) (\S+) .*\n(\d+) ([\w/]+).*\n\n`)

// TestAPI holds that docs/reference/openapi.yaml describes the golden answers of all endpoints that it has:
// their code, their media type and their content, without any other field. So are its own samples.
func TestAPI(t *testing.T) {
	page, c := readAPI(t)
	if page.OpenAPI != "3.1.0" {
		t.Errorf("%s is for OpenAPI %q", apiPage, page.OpenAPI)
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	validate := func(method, path, code string, v any) error {
		at := []string{"", "paths", path, method, "responses", code, "content", "application/json", "schema"}
		for i := range at {
			at[i] = url.PathEscape(escape.Replace(at[i]))
		}
		s, err := c.Compile("api.json#" + strings.Join(at, "/"))
		if err != nil {
			return err
		}
		return s.Validate(v)
	}

	files, err := filepath.Glob(goldenAnswers)
	if err != nil {
		t.Fatal(err)
	}
	answered := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := answerForm.FindAllStringSubmatchIndex(string(text), -1)
		for i, m := range all {
			part := func(n int) string { return string(text[m[2*n]:m[2*n+1]]) }
			method, path, code, media := strings.ToLower(part(1)), strings.SplitN(part(2), "?", 2)[0], part(3), part(4)
			operation, ok := page.Paths[path][method]
			if !ok {
				continue
			}
			request := fmt.Sprintf("%s: %s %s, %s", file, part(1), part(2), code)
			answered[method+" "+path+" "+media] = true
			if _, ok := operation.Responses[code].Content[media]; !ok {
				t.Errorf("%s: the page has no such answer with %s", request, media)
				continue
			}
			if media != "application/json" {
				continue
			}
			end := len(text)
			if i+1 < len(all) {
				end = all[i+1][0]
			}
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text[m[1]:end]))
			if err != nil {
				t.Fatalf("%s: %v", request, err)
			}
			if err := validate(method, path, code, v); err != nil {
				t.Errorf("%s: %v", request, err)
			}
		}
	}
	for path, methods := range page.Paths {
		for method, operation := range methods {
			if !answered[method+" "+path+" application/json"] {
				t.Errorf("no golden file has JSON of %s %s", method, path)
			}
			samples := 0
			for code, answer := range operation.Responses {
				if sample := answer.Content["application/json"].Example; sample != nil {
					samples++
					if err := validate(method, path, code, sample); err != nil {
						t.Errorf("the sample of %s %s, %s: %v", method, path, code, err)
					}
				}
			}
			if samples == 0 {
				t.Errorf("%s %s has no sample", method, path)
			}
		}
	}
}

// TestAPIChecker holds that the check above sees a field that the page lacks, and a wrong type.
func TestAPIChecker(t *testing.T) {
	_, c := readAPI(t)
	s, err := c.Compile("api.json#/components/schemas/Drain")
	if err != nil {
		t.Fatal(err)
	}
	for text, good := range map[string]bool{
		`{"node": "a", "clients": 1, "over_seconds": 0.5}`:             true,
		`{"node": "a", "clients": 1, "over_seconds": 0.5, "extra": 1}`: false,
		`{"node": "a", "clients": "1", "over_seconds": 0.5}`:           false,
		`{"node": "a", "clients": 1}`:                                  false,
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}
