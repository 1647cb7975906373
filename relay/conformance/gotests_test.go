package conformance

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// goTest is a Go test that holds rules.
type goTest struct {
	dir   string // from the root of the repository
	name  string
	tag   string // build constraint of its file, or ""
	rules []string
}

// String is how the page names the test.
func (g goTest) String() string {
	if g.tag != "" {
		return "`" + g.dir + ": " + g.name + "` (" + g.tag + ")"
	}
	return "`" + g.dir + ": " + g.name + "`"
}

// goTests finds the tests of the repository that hold a rule.
func goTests(t *testing.T, known []string) []goTest {
	t.Helper()
	tests, err := findGoTests(os.DirFS("../.."), known)
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// notOfTheRelay are folders whose tests show nothing of the relay: those of the
// test kit are about the kit.
var notOfTheRelay = []string{"relay/xdstest", "relay/conformance"}

func findGoTests(tree fs.FS, known []string) (tests []goTest, err error) {
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" ||
			entry.Name() == "node_modules" || slices.Contains(notOfTheRelay, name)):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		tag := tagOf(file)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !isTest(f) {
				continue
			}
			if rules := rulesIn(f.Doc.Text(), known); len(rules) > 0 {
				tests = append(tests, goTest{dir: path.Dir(name), name: f.Name.Name, tag: tag, rules: rules})
			}
		}
		return nil
	})
	slices.SortFunc(tests, func(a, b goTest) int { return strings.Compare(a.String(), b.String()) })
	return tests, err
}

// isTest reports whether `go test` runs the function with inputs of its own:
// tests and fuzz targets, whose seeds are tests.
func isTest(f *ast.FuncDecl) bool {
	name := f.Name.Name
	return f.Recv == nil && name != "TestMain" && (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz"))
}

// ruleID is anything that looks like a rule's id.
var ruleID = regexp.MustCompile(`\b[A-K][0-9]{1,2}\b`)

// rulesIn lists the rules that a text names, each once.
func rulesIn(text string, known []string) (rules []string) {
	for _, id := range ruleID.FindAllString(text, -1) {
		if slices.Contains(known, id) && !slices.Contains(rules, id) {
			rules = append(rules, id)
		}
	}
	return rules
}

// tagOf returns the build constraint of a file.
func tagOf(file *ast.File) string {
	for _, group := range file.Comments {
		for _, line := range group.List {
			if line.Pos() < file.Package && constraint.IsGoBuild(line.Text) {
				if expr, err := constraint.Parse(line.Text); err == nil {
					return expr.String()
				}
			}
		}
	}
	return ""
}

// TestFindGoTests holds what counts as a test of a rule.
func TestFindGoTests(t *testing.T) {
	tests, err := findGoTests(fstest.MapFS{
		"a/a_test.go": {Data: []byte(`// Package a speaks of A1.
package a

// A1, A9: the second is no rule. A1 again.
func TestOne(t *testing.T) { /* A2 */ }

// FuzzTwo is about A2 (B1).
func FuzzTwo(f *testing.F) {}

// A2
func BenchmarkIt(b *testing.B) {}

// A2
func ExampleIt() {}

// A2
func helper() {}

// A2
func (x T) TestMethod() {}

// A2
func TestMain(m *testing.M) {}

// XA1 and A10 name nothing.
func TestNothing(t *testing.T) {}
`)},
		"b/b_test.go":             {Data: []byte("//go:build e2e\n\npackage b\n\n// A1\nfunc TestTagged() {}\n")},
		"a/a.go":                  {Data: []byte("package a\n\n// A2\nfunc TestNot() {}\n")},
		"a/testdata/x_test.go":    {Data: []byte("no Go")},
		"relay/xdstest/x_test.go": {Data: []byte("package x\n\n// A2\nfunc TestTheKit() {}\n")},
	}, []string{"A1", "A2", "B1"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range tests {
		got = append(got, g.String()+" "+strings.Join(g.rules, " "))
	}
	want := []string{"`a: FuzzTwo` A2 B1", "`a: TestOne` A1", "`b: TestTagged` (e2e) A1"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, expected %q", got, want)
	}
}
