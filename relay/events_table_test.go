package relay_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"xdsrelay/relay/events"
)

// eventsPage is the page that lists the kinds of events.
var eventsPage = filepath.Join("..", "docs", "reference", "events.md")

// TestEventsPage: docs/reference/events.md lists the kinds of events.
func TestEventsPage(t *testing.T) {
	page := events.Page()
	if *update {
		if err := os.WriteFile(eventsPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadFile(eventsPage); err != nil || string(there) != page {
		t.Errorf("%s is not what the code says (%v): run `go test ./relay -run TestEventsPage -update`", eventsPage, err)
	}
}

// TestEachKindOfEvent: each kind of the table is recorded somewhere in the code, and is the subject
// of a test outside the package that has the table: one in which its cause produces it.
func TestEachKindOfEvent(t *testing.T) {
	readsFiles(t)
	constants := kindsByConstant(t)
	code, tests := make(map[string]bool), make(map[string]bool)
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || name == "relay/events" || d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case name == "docs/internals/operators-questions.md": // a test makes each break of the page
			text, err := os.ReadFile(path.Join("..", name))
			for constant, kind := range constants {
				tests[constant] = tests[constant] || strings.Contains(string(text), "`"+string(kind)+"`")
			}
			return err
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := os.ReadFile(path.Join("..", name))
		if err != nil || !strings.Contains(string(text), `"xdsrelay/relay/events"`) {
			return err
		}
		for constant := range constants {
			if strings.Contains(string(text), "events."+constant) {
				if strings.HasSuffix(name, "_test.go") {
					tests[constant] = true
				} else {
					code[constant] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for constant, kind := range constants {
		if _, known := events.Of(kind); !known {
			t.Errorf("events.%s (%s) has no row in the table", constant, kind)
		}
		if !code[constant] {
			t.Errorf("no code records events.%s (%s)", constant, kind)
		}
		if !tests[constant] {
			t.Errorf("no test expects events.%s (%s)", constant, kind)
		}
	}
	if len(constants) != len(events.Kinds()) {
		t.Errorf("%d constants and %d rows", len(constants), len(events.Kinds()))
	}
}

// kindsByConstant are the kinds by the names of their constants.
func kindsByConstant(t *testing.T) map[string]events.Kind {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "events/kinds.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]events.Kind)
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if of, ok := v.Type.(*ast.Ident); ok && of.Name == "Kind" {
				all[v.Names[0].Name] = events.Kind(strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`))
			}
		}
		return true
	})
	return all
}
