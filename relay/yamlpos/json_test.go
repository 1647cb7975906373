package yamlpos

import (
	"bytes"
	"strings"
	"testing"
)

var limits = Limits{Bytes: 64 << 20, Values: 4 << 20}

// TestToJSON holds that YAML features that JSON lacks convert to the JSON that one would expect.
func TestToJSON(t *testing.T) {
	for _, tc := range []struct{ name, yaml, json string }{
		{"scalars", "{a: 1, b: -2, c: 1.5, d: true, e: null, f: ~, g: text, h: '1', i: \"x\\ty\", j: 0x10, k: 0.25s, l: yes}",
			`{"a":1,"b":-2,"c":1.5,"d":true,"e":null,"f":null,"g":"text","h":"1","i":"x\ty","j":16,"k":"0.25s","l":"yes"}`},
		{"blocks", "a:\n- 1\n- b: 2\n  c:\n    d: 3\n- - 4\ne: |\n  x\n  y\nf: >-\n  x\n  y\n", `{"a":[1,{"b":2,"c":{"d":3}},[4]],"e":"x\ny\n","f":"x y"}`},
		{"large numbers", "[18446744073709551615, -9223372036854775808, .inf, -.inf, .nan]", `[18446744073709551615,-9223372036854775808,"Infinity","-Infinity","NaN"]`},
		{"empty", "{a: {}, b: [], c: ''}", `{"a":{},"b":[],"c":""}`},
		{"keys", "{1: a, true: b, 'x y': c}", `{"1":"a","true":"b","x y":"c"}`},
		{"anchor and alias", "a: &x {b: 1}\nc: *x\nd: [*x, *x]", `{"a":{"b":1},"c":{"b":1},"d":[{"b":1},{"b":1}]}`},
		{"anchored scalar", "a: &x 1\nb: *x", `{"a":1,"b":1}`},
		{"merge", "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3", `{"a":{"b":1,"c":2},"d":{"c":3,"b":1}}`},
		{"merge of several", "a: &x {b: 1}\nc: &y {b: 2, d: 3}\ne:\n  <<: [*x, *y]", `{"a":{"b":1},"c":{"b":2,"d":3},"e":{"b":1,"d":3}}`},
		{"tags", "{a: !!str 1, b: !!str x, c: !!int 3}", `{"a":"1","b":"x","c":3}`},
		{"document marks", "---\na: 1\n...\n", `{"a":1}`},
		{"comments", "# one\na: 1 # two\n# three\nb:\n# four\n- 2\n", `{"a":1,"b":[2]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			doc, err := ToJSON([]byte(tc.yaml), limits)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(string(doc.Text), "\n", ""); got != tc.json {
				t.Errorf("got      %s\nexpected %s", got, tc.json)
			}
			if lines := bytes.Count(doc.Text, []byte("\n")); lines != len(doc.at) {
				t.Errorf("%d lines with %d positions", lines, len(doc.at))
			}
		})
	}
}

// TestBombs holds that aliases of aliases, and of themselves, do not grow without bound.
func TestBombs(t *testing.T) {
	doubling := func(format string) string {
		s := "a0: &a0 {k: v}\n"
		for i := 1; i < 40; i++ {
			prev := "*a" + string(rune('0'+(i-1)/10)) + string(rune('0'+(i-1)%10))
			if i == 1 {
				prev = "*a0"
			}
			name := "a" + string(rune('0'+i/10)) + string(rune('0'+i%10))
			s += name + ": &" + name + " " + strings.ReplaceAll(format, "X", prev) + "\n"
		}
		return s
	}
	for name, s := range map[string]string{
		"values": doubling("[X, X]"),
		"merges": doubling("{<<: [X, X]}"),
		"itself": "a: &a [*a]\n",

		"documents": "a: b\n" + strings.Repeat("---\n", 40_000),
	} {
		if _, err := ToJSON([]byte(s), limits); err == nil {
			t.Errorf("%s: no error, expected a bound to be met", name)
		}
	}
}
