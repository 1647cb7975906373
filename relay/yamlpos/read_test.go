package yamlpos

import (
	"errors"
	"strings"
	"testing"
)

// TestParseErrors holds where mistakes are, and what a message says of them.
func TestParseErrors(t *testing.T) {
	small := Limits{Bytes: 1 << 20, Values: 10, Depth: 3}
	for _, tc := range []struct{ name, file, want string }{
		{"size", strings.Repeat("#", 1<<20+1), "has 1048577 bytes, expected at most 1MiB"},
		{"encoding", "a: 1\r\rb: \xff", "line 3, column 1: is not UTF-8 text"},
		{"syntax", "a: 1\nb: [", "line 2, column 4: not valid YAML: "},
		{"tab", "a:\n\tb: 1", "line 2, column 1: not valid YAML: found a tab that cannot start any token; expected spaces"},
		{"key twice", "a: 1\na: 2", "line 2, column 1: not valid YAML: mapping key \"a\" already defined at [1:1]"},
		{"values", "a: [1, 2, 3, 4, 5]\nb: [1, 2, 3]", "line 2, column 1: more than 10 values, with those that aliases repeat"},
		{"values of aliases", "a: &a [1, 2, 3]\nb: *a\nc: *a", "line 3, column 1: more than 10 values, with those that aliases repeat"},
		{"depth", "a: [[[1]]]", "line 1, column 1: nested more than 3 levels deep"},
		{"depth of aliases", "a: &a [[1]]\nb: [*a]", "line 2, column 1: nested more than 3 levels deep"},
		{"no anchor", "a: *x", "line 1, column 4: an alias without an anchor above it"},
		{"inside of its anchor", "a: &x [*x]", "line 1, column 8: an alias without an anchor above it"},
		{"merge", "a:\n  <<: 1", "line 2, column 7: << merges fields in, got a single value"},
		{"merge of a list", "a:\n  <<: [{b: 1}, 2]", "line 2, column 16: << merges fields in, got a single value"},
		{"name", "a: &x b\n*x : c", "line 2, column 1: this cannot be the name of a field, expected a text"},
		{"two documents", "a: 1\n---\nb: 2", "line 3, column 1: a second YAML document begins here, expected one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, err := Parse([]byte(tc.file), small)
			if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got      %v\nexpected %s", err, tc.want)
			}
			if (root != nil) != (tc.name == "two documents") {
				t.Errorf("the document is %v", root)
			}
		})
	}
}

// TestReferences holds that a file whose references are not expanded has them as values and names.
func TestReferences(t *testing.T) {
	root, err := Parse([]byte("a: &x 1\nb: *x\nc: !!str 1\n<<: {d: 1}"), Limits{Bytes: 1 << 10, Values: 10, NoReferences: true})
	if err != nil {
		t.Fatal(err)
	}
	names := ""
	for i, f := range root.Fields {
		names += f.Name + " "
		if f.Value.Kind != Reference && i < 3 || f.At.Line != i+1 {
			t.Errorf("%s is %s at %v", f.Name, f.Value.Kind, f.At)
		}
	}
	if names != "a b c << " {
		t.Errorf("names %s", names)
	}
}
