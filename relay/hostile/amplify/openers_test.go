package amplify

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// openers are the functions of the program that open a file or a directory, with the message
// of the rows of what they read, or in parentheses why there are none.
var openers = map[string]string{
	"relay/config.readFile":       "configuration (YAML)",
	"relay/config.readable":       "(it only looks whether the file can be opened)",
	"relay/config.checkValid":     "Certificates.cert_file",
	"relay/config.checkWritable":  "(it only looks whether the directory can be written)",
	"relay/config.checkDirectory": "(it only looks whether the directory can be read)",
	"relay/secure.readFile":       "Certificates.ca_file",
	"shard/lastgood.ReadDir":      "last_known_good.directory",
	"shard/lastgood.Open":         "last_known_good.directory",
	"shard/lastgood.SyncDir":      "(it reads nothing)",
	"shard/store.readPassword":    "Redis.password_file",
	"upstream.open":               "resources (yaml)",
	"upstream.readFile":           "resources (yaml)",
	"cmd/xdsrelay.readSome":       "Node or bootstrap of a client (YAML)",
	"cmd/xdsrelay.readServerTLS":  "(certificates of the operator who runs the command)",
	"cmd/xdsrelay.prepare":        "(a file of the operator who runs the command)",
	"cmd/xdsrelay.use":            "(files of the operator who runs the command)",
	"cmd/xdsrelay.tls":            "(files of the operator who runs the command)",
	"relay/demo.copyExamples":     demoFiles,
	"relay/demo.next":             demoFiles,
	"relay/demo.read":             demoFiles,
	"relay/demo.readFile":         demoFiles,
	"relay/demo.readLevel":        demoFiles,
	"relay/demo.write":            demoFiles,
	"relay/admin.uiFile":          "(files that are part of the program)",
}

const demoFiles = "(files of the operator who runs the demo, and of the demo itself)"

// TestOpeners holds that all functions of the program that open files are among openers, and
// that these have rows.
func TestOpeners(t *testing.T) {
	found := make(map[string]bool)
	within(t, "cmd/xdsrelay", make(map[string]bool), found)
	for name := range found {
		if openers[name] == "" {
			t.Errorf("%s opens files, of which there is no row: add it to openers", name)
		}
	}
	messages := make(map[string]bool)
	for _, part := range allWorlds(t) {
		for _, r := range part.rows(true) {
			messages[r.message] = true
		}
	}
	for name, message := range sorted(openers) {
		if !found[name] {
			t.Errorf("%s is among openers and opens no file", name)
		}
		if !strings.HasPrefix(message, "(") && !messages[message] {
			t.Errorf("%s reads %q, of which there is no row: there are %q", name, message, slices.Sorted(maps.Keys(messages)))
		}
	}
}

// opens are the functions that open a file, by their package, or as methods of any type.
var opens = map[string][]string{
	"os":  {"Open", "OpenFile", "OpenRoot", "ReadFile", "ReadDir", "DirFS", "CopyFS"},
	"tls": {"LoadX509KeyPair"},
	"fs":  {"ReadFile", "ReadDir", "WalkDir", "Glob"},
	"":    {"OpenRoot", "ReadFile"},
}

// within adds the functions of a package that open files, and of those that it imports.
func within(t *testing.T, pkg string, seen, found map[string]bool) {
	t.Helper()
	if seen[pkg] {
		return
	}
	seen[pkg] = true
	files, err := filepath.Glob(filepath.Join("..", "..", "..", pkg, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the package %s has no files: %v", pkg, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		imported := make(map[string]bool) // the names of packages
		for _, i := range file.Imports {
			at, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if own, is := strings.CutPrefix(at, "xdsrelay/"); is {
				within(t, own, seen, found)
			}
			imported[at[strings.LastIndex(at, "/")+1:]] = true
		}
		for _, d := range file.Decls {
			f, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, is := n.(*ast.SelectorExpr); is && opensFile(s, imported) {
					found[pkg+"."+f.Name.Name] = true
				}
				return true
			})
		}
	}
}

// opensFile reports whether a function or method that is used in a file is among opens.
func opensFile(s *ast.SelectorExpr, imported map[string]bool) bool {
	if x, is := s.X.(*ast.Ident); is && imported[x.Name] {
		return slices.Contains(opens[x.Name], s.Sel.Name)
	}
	return slices.Contains(opens[""], s.Sel.Name)
}
