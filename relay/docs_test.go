package relay_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuaranteesNameTests: each test that docs/internals/guarantees.md and the threat model
// name exists in the package that they name.
func TestGuaranteesNameTests(t *testing.T) {
	for doc, least := range map[string]int{"docs/internals/guarantees.md": 40, "docs/internals/threat-model.md": 20} {
		testNames(t, doc, least)
	}
}

func testNames(t *testing.T, doc string, least int) {
	t.Helper()
	text, err := os.ReadFile("../" + doc)
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z/]+): ((?:Test|Benchmark|Fuzz)\\w+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < least {
		t.Fatalf("%s: only %d tests are named: has the form changed?", doc, len(named))
	}
	for _, n := range named {
		if dir, test := n[1], n[2]; !hasTest(t, filepath.Join("..", dir), test) {
			t.Errorf("%s names %s of %s, which does not exist", doc, test, dir)
		}
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
