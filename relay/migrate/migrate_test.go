package migrate

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xdsrelay/relay/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

func read(t testing.TB, names ...string) (files []File) {
	t.Helper()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, File{name, data})
	}
	return files
}

// TestExamples: files of every form become what the golden files hold, which a node
// takes.
func TestExamples(t *testing.T) {
	for golden, names := range map[string][]string{
		"both": {"bootstrap.yaml", "rules.yaml"}, "rules-alone": {"rules.yaml"}, "bootstrap-alone": {"bootstrap.yaml"},
		"old-form": {"old-form.yaml", "bootstrap.yaml"}, "camel": {"camel.yaml"},
	} {
		t.Run(golden, func(t *testing.T) {
			res, err := Translate(read(t, names...)...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(config.Input{File: golden, Data: res.Text, WithoutUpstream: !res.Origin}); err != nil {
				t.Errorf("%s\n%v", res.Text, err)
			}
			got := string(res.Text) + "---\n"
			for _, w := range res.Warnings {
				got += w.String() + "\n"
			}
			file := filepath.Join("testdata", golden+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s is otherwise; go test ./relay/migrate -update writes it anew. Now it would be\n%s", file, got)
			}
		})
	}
}

// rulesOf puts a match and a result into a file of rules, in lines 3 and 4.
func rulesOf(match, result string) string {
	return "fragments:\n- rules:\n  - match: " + match + "\n    result: " + result + "\n"
}

func TestMistakesHavePlaces(t *testing.T) {
	const anyMatch, word = "{any_match: true}", "{string_fragment: x}"
	for _, tc := range []struct{ file, want string }{
		{"", "f: holds no fields"},
		{"a: [", "f:1:4: not valid YAML"},
		{"\xff", "f:1:1: is not UTF-8 text"},
		{"hello: 1", "f:1:1: is neither a bootstrap of xds-relay"},
		{"fragments: {}", "f:1:1: fragments is not a list"},
		{"fragments: []", "fragments is not a list of fragments, expected at least one"},
		{"fragments: [{rules: []}]", "f:1:13: the rules of a fragment are not a list"},
		{"fragments: [{rulez: []}]", "f:1:14: unknown field rulez of a fragment, expected rules"},
		{rulesOf(anyMatch, "{}"), "f:4:13: a result needs exactly one of and_result"},
		{rulesOf("{any_match: false}", word), "f:3:24: any_match can only be true"},
		{rulesOf("{any_match: true, not_match: {any_match: true}}", word), "f:3:12: a match needs exactly one of"},
		{rulesOf("{and_match: {rules: [{any_match: true}]}}", word), "and_match has 1 entries, expected at least 2"},
		{rulesOf("{request_type_match: {types: []}}", word), "needs a list of types"},
		{rulesOf("{request_node_match: {id_match: {}}}", word), "f:3:44: exactly one of exact_match and regex_match is needed"},
		{rulesOf("{request_node_match: {id_match: {regex_match: '('}}}", word), "f:3:58: error parsing regexp: missing closing ): `(`"},
		{rulesOf("{request_node_match: {field: 7, exact_match: a}}", word), `f:3:41: field is "7", expected NODE_ID`},
		{rulesOf("{request_node_match: {node_metadata_match: {path: [], match: {}}}}", word), "node_metadata_match needs path and match"},
		{rulesOf(anyMatch, "{request_node_fragment: {id_action: {regex_action: {pattern: a, replace: '"+strings.Repeat("x", 65)+"'}}}}"), "replace has 65 characters, expected at most 64"},
		{rulesOf(anyMatch, "{request_node_fragment: {id_action: {regex_action: {pattern: a, replace: '$10'}}}}"), "group 10"},
		{rulesOf(anyMatch, "{request_node_fragment: {id_action: {exact: false}}}"), "exact can only be true"},
		{rulesOf("{not_match: {any_match: true}}", word), "f:1:1: no rule matches any request"},
		{"fragments: *a", "f:1:12: an alias without an anchor above it"},
		{"server: {address: {address: a, port_value: 1}}", "f:1:1: the bootstrap needs both server and origin_server"},
		{"server: {address: {address: a, port_value: 70000}}", `the port is "70000", expected 0 to 65535`},
		{"server: 1", "f:1:1: server is a single value, expected the fields address"},
		{"server: {}\nlogging: {level: LOUD}", `f:2:18: the level is "LOUD", expected INFO`},
		{"server: {}\ncache: {ttl: -1s}", `f:2:14: the ttl is "-1s", expected a time like 60s`},
		{"server: {}\n---\nserver: {}", "f:3:1: a second YAML document begins here"},
		{strings.Repeat("[", 80), "f:"},
		{"a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]", "f:5:32: more than 100000 values"},
	} {
		_, err := Translate(File{"f", []byte(tc.file)})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q\n gives %v\n expected %s", tc.file, err, tc.want)
		}
	}
}

func TestFilesAreOneOfAKind(t *testing.T) {
	rules := read(t, "rules.yaml", "camel.yaml")
	if _, err := Translate(rules...); err == nil || !strings.Contains(err.Error(), "camel.yaml: is the second file of its kind") {
		t.Errorf("error %v", err)
	}
	if _, err := Translate(); err == nil {
		t.Error("no file is no mistake")
	}
}

// FuzzTranslate: no file panics; a mistake has a place in the file, and a result is YAML
// that the configuration's own decoder can place every complaint in.
func FuzzTranslate(f *testing.F) {
	for _, file := range read(f, "bootstrap.yaml", "rules.yaml", "old-form.yaml", "camel.yaml") {
		f.Add(file.Data)
	}
	f.Add([]byte("fragments: &a [*a]"))
	f.Add([]byte("server: {<<: {address: 1}}\norigin_server: 1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		res, err := Translate(File{"f", data})
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		_, err = config.Load(config.Input{File: "result", Data: res.Text, WithoutUpstream: true})
		if err != nil && strings.Contains(err.Error(), "not valid YAML") {
			t.Errorf("%v\n%s", err, res.Text)
		}
	})
}

// TestPageShowsWhatIsWritten: the example of docs/how-to/migrate-from-xds-relay.md becomes what stands below it.
func TestPageShowsWhatIsWritten(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/migrate-from-xds-relay.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```text\n")
	rules, rest, _ := strings.Cut(rest, "```")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	want, _, _ := strings.Cut(rest, "```")
	res, err := Translate(File{"rules", []byte(rules)})
	if err != nil || want == "" || !strings.HasSuffix(string(res.Text), "\n"+want) {
		t.Errorf("error %v; it becomes\n%s", err, res.Text)
	}
}

// A value's own fields win over those that << merges in, wherever << is written.
func TestOwnFieldsWinOverMerged(t *testing.T) {
	res, err := Translate(File{"f", []byte("server: &s {address: {address: a, port_value: 1}}\norigin_server:\n  <<: *s\n  address: {address: b, port_value: 2}\n")})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(res.Text), "b:2") {
		t.Errorf("the origin is not b:2 in\n%s", res.Text)
	}
}
