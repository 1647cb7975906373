package yamlpos

import (
	"strings"
	"testing"
)

// TestBounds holds the bounds, and that ordinary files meet them.
func TestBounds(t *testing.T) {
	for text, want := range map[string]int{
		"":                                 0,
		"a: [1, {b: c}]\n---\nd: e\n...\n": 0,
		strings.Repeat("- [x]\n", 10_000):  0,
		"# ----\n" + strings.Repeat("[]", 10_000):   0,
		"a:\n" + strings.Repeat("[", maxDepth+1):    2,
		"a:\n" + strings.Repeat("{b: ", maxDepth+1): 2,
		"a:\n" + strings.Repeat("- ", maxDepth+1):   2,
		"a: b\n" + strings.Repeat("---\n", 9):       10,
		"a: b\n" + strings.Repeat("...\n", 9):       10,
	} {
		line, problem := exceeds([]byte(text))
		if line != want || (problem == "") != (want == 0) {
			t.Errorf("%.40q: line %d, %q; expected line %d", text, line, problem, want)
		}
	}
}
