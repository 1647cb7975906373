package yamlpos

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"
)

// FuzzParse holds that no file makes the reader panic, that what it makes of a file stays within the
// limits, that each position is inside the file, and that the JSON is valid and leads back to it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "# nothing", "--- |\n  x\n", "a: 1\nb: [", "a:\n\tb: 1", "a: 1\na: 2", "a: 1\r\rb: \xff", "\ufeffa: ä\u2028b",
		"a:\n- 1\n- b: 2\n  c:\n    d: 3\n- - 4\ne: |\n  x\n  y\nf: >-\n  x\n  y\n",
		"{a: 1, b: -2, c: 1.5, d: true, e: null, f: ~, g: text, h: '1', i: \"x\\ty\", j: 0x10, k: 0.25s, l: yes}",
		"[18446744073709551615, -9223372036854775808, .inf, -.inf, .nan, 1e999]",
		"{1: a, true: b, 'x y': c}", "{a: !!str 1, b: !!str x, c: !!int 3}",
		"a: &x {b: 1}\nc: *x\nd: [*x, *x]", "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3", "a: &x {b: 1}\nc: &y {b: 2}\ne:\n  <<: [*x, *y]",
		"a: *x", "a: &x [*x]", "a:\n  <<: [{b: 1}, 2]", "a: &x b\n*x : c", "a: &a [[1]]\nb: [*a]",
		"---\na: 1\n...\n", "a: 1\n---\nb: 2", "# one\na: 1 # two\n# three\nb:\n# four\n- 2\n", "%YAML 1.2\n---\na: b",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	limits := Limits{Bytes: 4 << 10, Values: 200, Depth: 20}
	f.Fuzz(func(t *testing.T, data []byte, plain bool) {
		limits.NoReferences = plain
		root, err := Parse(data, limits)
		lines := Lines(data)
		inside := func(at At, what string) {
			if at == (At{}) {
				return // the file as a whole
			}
			// The position of a missing value is up to two characters behind the end of the line.
			if at.Line < 1 || at.Line > len(lines) || at.Column < 1 || at.Column > utf8.RuneCountInString(lines[at.Line-1])+2 || at.Width < 0 {
				t.Errorf("%s at %+v, expected a position in %q", what, at, lines)
			}
		}
		values := 0
		var walk func(v *Value, depth int)
		walk = func(v *Value, depth int) {
			if values++; values > limits.Values || depth > limits.Depth {
				t.Fatalf("%d values at %d levels, expected at most %d and %d", values, depth, limits.Values, limits.Depth)
			}
			inside(v.At, v.Kind.String())
			for _, item := range v.Items {
				walk(item, depth+1)
			}
			for _, field := range v.Fields {
				inside(field.At, field.Name)
				walk(field.Value, depth+1)
			}
		}
		mistake := func(err error) {
			wrong, ok := errors.AsType[*Error](err)
			if !ok || wrong.Message == "" {
				t.Fatalf("%T %v", err, err)
			}
			inside(wrong.At, wrong.Message)
		}
		if root != nil {
			walk(root, 0)
		}
		if err != nil {
			mistake(err)
		}
		doc, err := ToJSON(data, limits)
		if err != nil {
			mistake(err)
			return
		}
		switch made := bytes.Count(doc.Text, []byte("\n")); {
		case len(doc.Text) > limits.Bytes:
			t.Errorf("%d bytes of JSON, expected at most %d", len(doc.Text), limits.Bytes)
		case !json.Valid(doc.Text):
			t.Errorf("%q is not JSON", doc.Text)
		default:
			for line := range made + 2 {
				inside(doc.Position(line), "a line of the JSON")
			}
		}
	})
}
