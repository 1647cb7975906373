package relay_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPropertiesCountInRounds: a property that counts what it met, over its cases, is
// checked with property.CheckUntil. With rapid.Check its count would depend on the number
// of cases, of which "make race" has fewer.
func TestPropertiesCountInRounds(t *testing.T) {
	readsFiles(t)
	counting := 0
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != ".." && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(text), `"pgregory.net/rapid"`) {
			return err
		}
		counts, rounds := countsOf(t, name, string(text))
		counting += rounds
		for _, count := range counts {
			t.Errorf("%s: %s is counted over the cases of a check; use property.CheckUntil", name, count)
		}
		return nil
	})
	if err != nil || counting == 0 {
		t.Errorf("%d calls of CheckUntil were seen, %v", counting, err)
	}
}

// TestPropertiesChecker holds that the checker sees each kind.
func TestPropertiesChecker(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		want       []string
		rounds     int
	}{
		{"a count over the cases", `n, m := 0, 0; rapid.Check(t, func(t *rapid.T) { n++ })`, []string{"n"}, 0},
		{"a sum over the cases", `var n int; property.Check(t, func(t *rapid.T) { n += 2 })`, []string{"n"}, 0},
		{"a count in a case", `rapid.Check(t, func(t *rapid.T) { n := 0; n++ })`, nil, 0},
		{"a loop in a case", `rapid.Check(t, func(t *rapid.T) { for i := 0; i < 3; i++ { use(i) } })`, nil, 0},
		{"rounds", `n := 0; property.CheckUntil(t, func() bool { return n > 0 }, func(t *rapid.T) { n++ })`, nil, 1},
	} {
		text := "package p\nfunc F(t *testing.T) { " + tc.body + " }"
		if got, rounds := countsOf(t, tc.name, text); !slices.Equal(got, tc.want) || rounds != tc.rounds {
			t.Errorf("%s: %q and %d rounds, expected %q and %d", tc.name, got, rounds, tc.want, tc.rounds)
		}
	}
}

// countsOf returns the variables that a property of a file adds to and that live longer
// than a case of it, and how many calls of CheckUntil the file has.
func countsOf(t *testing.T, name, text string) (counts []string, rounds int) {
	t.Helper()
	// The parser still resolves the names of a file, which is all that is needed here.
	file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		fun, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := fun.X.(*ast.Ident)
		if !ok || pkg.Name != "rapid" && pkg.Name != "property" {
			return true
		}
		if fun.Sel.Name == "CheckUntil" {
			rounds++
		}
		if of, ok := call.Args[len(call.Args)-1].(*ast.FuncLit); ok && fun.Sel.Name == "Check" {
			counts = append(counts, addedOutside(of)...)
		}
		return true
	})
	return counts, rounds
}

// addedOutside returns the variables that a function adds to and does not declare.
func addedOutside(of *ast.FuncLit) (names []string) {
	add := func(e ast.Expr) {
		id, ok := e.(*ast.Ident)
		if ok && id.Obj != nil && (id.Obj.Pos() < of.Pos() || id.Obj.Pos() >= of.End()) && !slices.Contains(names, id.Name) {
			names = append(names, id.Name)
		}
	}
	ast.Inspect(of, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IncDecStmt:
			add(n.X)
		case *ast.AssignStmt:
			if n.Tok == token.ADD_ASSIGN {
				add(n.Lhs[0])
			}
		}
		return true
	})
	return names
}
