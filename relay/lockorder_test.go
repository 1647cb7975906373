package relay_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// TestLockOrder holds that the package doc of the node names the locks whose order is checked
// under the race detector, in that order, and no other ones.
func TestLockOrder(t *testing.T) {
	lines := make(map[string][]string) // by line of the order: the locks that are in it
	for _, dir := range []string{"fanout", "fanout/limit", "relay/cache", "shard/head"} {
		for _, file := range parsed(t, "../"+dir) {
			for _, lock := range locksOf(file) {
				lines[lock.line] = append(lines[lock.line], lock.name)
			}
		}
	}
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, order, _ := strings.Cut(string(text), "# Lock order")
	order, _, _ = strings.Cut(order, "# Goroutines")
	at := 0
	for _, line := range []string{"Stream", "Yielding", "Heads", "Cache", "Table", "Group", "Leaf"} {
		if len(lines[line]) == 0 {
			t.Errorf("no lock has the line %s", line)
		}
		if line == "Leaf" { // the doc names their packages
			break
		}
		for _, name := range lines[line] {
			i := strings.Index(order[at:], "\t"+name)
			if i < 0 {
				t.Fatalf("doc.go does not name %s, in its place", name)
			}
			at += i
		}
	}
}

type lock struct{ name, line string }

// locksOf returns the fields of a file that are mutexes of package lockorder.
func locksOf(file *ast.File) (locks []lock) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		of, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, field := range of.Fields.List {
			generic, ok := field.Type.(*ast.IndexExpr)
			if !ok {
				continue
			}
			if from, ok := generic.X.(*ast.SelectorExpr); !ok || from.X.(*ast.Ident).Name != "lockorder" {
				continue
			}
			name := "Table.mu" // embedded in rwMutex, the type of that field
			if len(field.Names) > 0 {
				name = spec.Name.Name + "." + field.Names[0].Name
			}
			locks = append(locks, lock{name, generic.Index.(*ast.SelectorExpr).Sel.Name})
		}
		return true
	})
	return locks
}

// parsed returns the files of a folder, but for tests.
func parsed(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
	}
	return files
}
