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

// lockedPackages are those with locks that many clients wait for: of streams, tables, the
// polls that are remembered, and keys.
var lockedPackages = []string{"fanout", "fanout/rest", "relay/cache"}

// TestNothingIsRedactedUnderALock holds that text is redacted before a lock is taken, or
// after it was released: however little it costs, whoever writes the text decides how often.
// Whatever redacts, by itself or by a function of its package, must not be called by a
// function that is called under a lock, as its name says, nor by one that holds a lock to
// its end.
func TestNothingIsRedactedUnderALock(t *testing.T) {
	notUnderALock(t, "redact", lockedPackages)
}

// TestNothingIsLoggedUnderALock holds that a line of the log is written when no lock is held
// for which clients or keys wait: to write takes as long as the program's output is blocked.
func TestNothingIsLoggedUnderALock(t *testing.T) {
	notUnderALock(t, "log", []string{"fanout", "fanout/rest", "fanout/limit", "upstream"})
}

// notUnderALock holds that nothing of the packages does under a lock what a word says.
func notUnderALock(t *testing.T, word string, packages []string) {
	t.Helper()
	for _, name := range packages {
		dir := filepath.Join("..", filepath.FromSlash(name))
		pkg := calls(t, dir)
		slow := map[string]bool{word: true}
		for grown := true; grown; {
			grown = false
			for f, c := range pkg {
				if !slow[f] && slices.ContainsFunc(c.callees, func(callee string) bool { return slow[callee] }) {
					slow[f], grown = true, true
				}
			}
		}
		if len(slow) == 1 {
			t.Errorf("%s: no function calls %s, so this test finds nothing", name, word)
		}
		for f, c := range pkg {
			if slow[f] && (c.locked || strings.HasSuffix(f, "Locked")) {
				t.Errorf("%s: %s calls %s under a lock, by %s", name, f, word, slices.DeleteFunc(c.callees, func(callee string) bool { return !slow[callee] }))
			}
		}
	}
}

// function is what a function calls, by names without types.
type function struct {
	callees []string
	locked  bool // it locks something and unlocks that at its end
}

// calls parses the product's code in a folder. Functions of the same name count as one.
func calls(t *testing.T, dir string) map[string]*function {
	t.Helper()
	all := make(map[string]*function)
	for _, file := range sources(t, dir) {
		for _, d := range file.Decls {
			decl, ok := d.(*ast.FuncDecl)
			if !ok || decl.Body == nil {
				continue
			}
			f := all[decl.Name.Name]
			if f == nil {
				f = &function{}
				all[decl.Name.Name] = f
			}
			ast.Inspect(decl.Body, func(n ast.Node) bool { return f.take(n) })
		}
	}
	return all
}

// take notes what a node calls, and reports whether to look into it: what a function leaves
// for later is not called by it.
func (f *function) take(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.DeferStmt:
		if s, ok := n.Call.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Unlock" || s.Sel.Name == "RUnlock" || s.Sel.Name == "unlock") {
			f.locked = true
		}
		if f, ok := n.Call.Fun.(*ast.Ident); ok && f.Name == "logged" { // deferred before the lock is taken
			return false
		}
	case *ast.GoStmt:
		return false
	case *ast.ReturnStmt:
		if slices.ContainsFunc(n.Results, func(e ast.Expr) bool { _, later := e.(*ast.FuncLit); return later }) {
			return false
		}
	case *ast.CallExpr:
		switch callee := n.Fun.(type) {
		case *ast.Ident:
			f.callees = append(f.callees, callee.Name)
		case *ast.SelectorExpr:
			name := callee.Sel.Name
			if name == "laterLocked" {
				return false
			}
			if x, ok := callee.X.(*ast.Ident); ok && x.Name == "redact" && name != "Sensitive" {
				name = "redact"
			}
			if levels[name] && isLogger(callee.X) {
				name = "log"
			}
			f.callees = append(f.callees, name)
		}
	}
	return true
}

// levels are the methods of a logger that write a line.
var levels = map[string]bool{"Debug": true, "Info": true, "Warn": true, "Error": true, "Log": true, "LogAttrs": true}

// isLogger reports whether an expression is a logger, by its name.
func isLogger(e ast.Expr) bool {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	}
	return slices.Contains([]string{"log", "logger", "Log", "Logger", "slog"}, name)
}

func sources(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	entries, err := fs.ReadDir(os.DirFS(dir), ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}
