package relay_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// module is the prefix of every import path of this repository.
const module = "xdsrelay"

// layers is the import graph: for each part of the repository, the parts that
// it may import. A folder that is not listed belongs to its nearest listed
// parent. Parts are only ever added below what they import:
//
//	cmd → relay → {fanout, upstream, shard} → {relay/cache, relay/load} → {relay/aggregation, relay/resource, relay/trace}
var layers = map[string][]string{
	"cmd/xdsrelay":      {"relay", "relay/demo", "relay/pause", "relay/xdsget"},
	"cmd/xdsbench":      {"bench"},
	"relay":             {"fanout", "upstream", "shard", "relay/cache", "relay/trace", "relay/load", "relay/secure", "relay/events", "relay/redact", "relay/authorize", "relay/aggregation", "relay/resource", "relay/yamlpos", "relay/lockorder", "relay/pause", "relay/rollout", "relay/hooks"},
	"fanout":            {"relay/cache", "relay/trace", "relay/load", "relay/events", "relay/redact", "relay/authorize", "relay/aggregation", "relay/resource", "relay/lockorder", "relay/pause", "relay/transition"},
	"upstream":          {"relay/cache", "relay/trace", "relay/load", "relay/events", "relay/redact", "relay/aggregation", "relay/resource", "relay/yamlpos", "relay/pause", "upstream/conversation", "upstream/quarantine", "upstream/resume"},
	"shard":             {"relay/cache", "relay/cache/tierhead", "relay/trace", "relay/secure", "relay/events", "relay/redact", "relay/aggregation", "relay/resource", "relay/lockorder", "relay/pause"},
	"relay/cache":       {"relay/trace", "relay/redact", "relay/aggregation", "relay/resource", "relay/lockorder", "relay/cache/absence", "relay/cache/confidence", "relay/cache/demand", "relay/cache/link", "relay/cache/list", "relay/cache/notes", "relay/cache/pool", "relay/cache/recent", "relay/cache/removals", "relay/cache/table", "relay/cache/tierhead"},
	"relay/load":        {"relay/aggregation", "relay/lockorder"},
	"relay/secure":      {"relay/events"},
	"relay/events":      {"relay/redact"},
	"relay/trace":       {},
	"relay/redact":      {"relay/resource"},
	"relay/authorize":   {"relay/aggregation"},
	"relay/aggregation": {},
	"relay/resource":    {},
	"relay/yamlpos":     {},
	"relay/pause":       {},
	"relay/lockorder":   {},
	"relay/rollout":     {"relay/aggregation", "relay/resource", "relay/transition"},
	"relay/hooks":       {"relay/pause", "relay/redact", "relay/rollout", "relay/secure"},
	"relay/transition":  {},

	// Pure packages below one that does I/O, or has locks.
	"relay/cache/absence":    {},
	"relay/cache/confidence": {"relay/transition"},
	"relay/cache/demand":     {"relay/cache/guarded", "relay/resource"},
	"relay/cache/guarded":    {},
	"relay/cache/link":       {"relay/transition"},
	"relay/cache/list":       {},
	"relay/cache/notes":      {"relay/cache/guarded", "relay/cache/list", "relay/resource"},
	"relay/cache/pool":       {"relay/lockorder", "relay/resource"},
	"relay/cache/recent":     {},
	"relay/cache/removals":   {"relay/resource"},
	"relay/cache/table":      {"relay/cache/guarded", "relay/cache/list", "relay/resource"},
	"relay/cache/tierhead":   {"relay/resource"},
	"upstream/conversation":  {"relay/cache", "relay/resource", "relay/transition"},
	"upstream/quarantine":    {"relay/resource", "relay/transition"},
	"upstream/resume":        {"relay/resource"},

	// Beside the program: what drives it and what tries it out.
	"relay/demo":        {"relay", "relay/pause", "relay/xdsclient", "relay/yamlpos"},
	"relay/xdsclient":   {"relay/pause", "relay/resource"},
	"relay/xdsget":      {"relay", "relay/redact", "relay/resource", "relay/secure", "relay/xdsclient"},
	"relay/xdstest":     {"relay/pause", "relay/resource", "relay/xdsclient"},
	"shard/redistest":   {"relay/xdstest"},
	"relay/e2e":         {"relay", "relay/xdstest"},
	"relay/robust":      {"bench", "relay/xdstest", "shard/redistest"},
	"relay/sim":         {"relay", "relay/aggregation", "relay/resource", "relay/robust", "relay/rollout", "relay/xdsclient", "relay/xdstest", "shard", "shard/redistest"},
	"relay/conformance": {"relay", "relay/xdstest"},
	"relay/hostile":     {"relay", "bench", "relay/tier", "shard", "relay/authorize", "relay/aggregation", "relay/resource", "relay/xdstest"},
	"bench":             {"relay", "fanout", "upstream", "shard", "relay/cache", "relay/aggregation", "relay/resource", "relay/xdstest", "shard/redistest"},
	"deploy":            {"relay"},

	"relay/transition/transitiontest": {"relay/transition"},
}

// testKits lists the parts that tests of any part may import.
var testKits = []string{"relay/xdstest", "shard/redistest", "relay/transition/transitiontest", "relay/ops/opstest"}

// pure lists the parts that do no I/O, start no goroutines and read no clock, impure the packages
// that would be a way to do the first, and clock the functions that do the last. lockless are those
// of them that have no locks either: others lock what they are part of.
var (
	pure   = []string{"relay/aggregation", "relay/authorize", "relay/resource", "relay/redact", "relay/fielddiff", "relay/migrate", "relay/terms", "relay/yamlpos", "relay/cache/absence", "relay/cache/confidence", "relay/cache/demand", "relay/cache/guarded", "relay/cache/link", "relay/cache/list", "relay/cache/notes", "relay/cache/recent", "relay/cache/removals", "relay/cache/table", "relay/cache/tierhead", "upstream/conversation", "upstream/quarantine", "upstream/resume", "relay/rollout", "relay/transition"}
	impure = []string{"net/http", "os", "os/exec", "syscall", "google.golang.org/grpc"}
	clock  = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Sleep", "Tick"}

	lockless = []string{"relay/cache/absence", "relay/cache/confidence", "relay/cache/demand", "relay/cache/guarded", "relay/cache/link", "relay/cache/list", "relay/cache/notes", "relay/cache/recent", "relay/cache/removals", "relay/cache/table", "relay/cache/tierhead", "upstream/conversation", "upstream/quarantine", "upstream/resume", "relay/rollout", "relay/transition"}
	locks    = []string{"sync", "sync/atomic", module + "/relay/lockorder"}
)

// grpcFree lists the packages whose code knows no gRPC but what is in statuses: the protocol is
// tested without a transport, and another transport could carry it. The value has the files that
// may, since they put the package on grpc-go.
var (
	grpcFree = map[string][]string{
		"fanout":              {"services.go", "others.go"},
		"fanout/transport":    nil,
		"fanout/conversation": nil,
		"relay/cache":         nil,
	}
	statuses = []string{grpcGo + "/codes", grpcGo + "/status"}
)

// grpcGo is the prefix of the import paths of grpc-go. adapter is the package that knows its
// internals.
const (
	grpcGo  = "google.golang.org/grpc"
	adapter = module + "/fanout/grpcgo"
)

// topLevel is all that the root folder holds, beside what .gitignore names.
var topLevel = []string{
	"go.mod", "go.sum", "cmd", "relay", "upstream", "fanout", "shard", "deploy", "bench", "docs",
	"Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", ".ci", ".golangci.yml", ".gitignore",
}

// TestImportGraph holds the layout of the repository: who may import whom,
// which parts are pure or know no gRPC, that every package says what it is for, and what lies
// at the top.
func TestImportGraph(t *testing.T) {
	readsFiles(t)
	for _, broken := range checkHouse(t, os.DirFS("..")) {
		t.Error(broken)
	}
}

// TestImportGraphChecker holds that the checker sees each kind of violation.
func TestImportGraphChecker(t *testing.T) {
	tests := []struct {
		name string
		file string // added to a tree in order
		text string
		want string // the only violation, or "" for none
	}{
		{"in order", "fanout/a.go", `package fanout; import _ "xdsrelay/relay/cache"`, ""},
		{"own subfolder", "fanout/a.go", `package fanout; import _ "xdsrelay/fanout/wire"`, ""},
		{"subfolder of a part", "fanout/wire/a.go", "// Package wire is.\npackage wire; import _ \"xdsrelay/relay/resource\"", ""},
		{"test imports the test kit", "fanout/a_test.go", `package fanout_test; import _ "xdsrelay/relay/xdstest"`, ""},
		{"program imports the admin part", "cmd/xdsrelay/a.go", `package main; import _ "xdsrelay/relay/admin"`, ""},
		{"I/O in a test of a pure part", "relay/resource/a_test.go", `package resource; import _ "os"`, ""},
		{"sideways", "fanout/a.go", `package fanout; import _ "xdsrelay/upstream"`,
			"fanout/a.go imports xdsrelay/upstream: fanout may import only relay/cache, relay/trace, relay/load, relay/events, relay/redact, relay/authorize, relay/aggregation, relay/resource, relay/lockorder, relay/pause, relay/transition"},
		{"sideways in a test", "shard/a_test.go", `package shard_test; import _ "xdsrelay/fanout"`,
			"shard/a_test.go imports xdsrelay/fanout: shard may import only relay/cache, relay/cache/tierhead, relay/trace, relay/secure, relay/events, relay/redact, relay/aggregation, relay/resource, relay/lockorder, relay/pause, and in tests relay/xdstest, shard/redistest, relay/transition/transitiontest, relay/ops/opstest"},
		{"upwards", "relay/cache/a.go", `package cache; import _ "xdsrelay/relay"`,
			"relay/cache/a.go imports xdsrelay/relay: relay/cache may import only relay/trace, relay/redact, relay/aggregation, relay/resource, relay/lockorder, relay/cache/absence, relay/cache/confidence, relay/cache/demand, relay/cache/link, relay/cache/list, relay/cache/notes, relay/cache/pool, relay/cache/recent, relay/cache/removals, relay/cache/table, relay/cache/tierhead"},
		{"upwards from a subfolder", "relay/admin/a.go", "// Package admin is.\npackage admin; import _ \"xdsrelay/relay\"",
			"relay/admin/a.go imports xdsrelay/relay: nothing below the node imports it"},
		{"pure imports a neighbour", "relay/resource/a.go", `package resource; import _ "xdsrelay/relay/aggregation"`,
			"relay/resource/a.go imports xdsrelay/relay/aggregation: relay/resource may import nothing of this module"},
		{"past the layer below", "cmd/xdsrelay/a.go", `package main; import _ "xdsrelay/fanout"`,
			"cmd/xdsrelay/a.go imports xdsrelay/fanout: cmd/xdsrelay may import only relay, relay/demo, relay/pause, relay/xdsget"},
		{"test kit in the program", "relay/a.go", `package relay; import _ "xdsrelay/relay/xdstest"`,
			"relay/a.go imports xdsrelay/relay/xdstest: relay may import only fanout, upstream, shard, relay/cache, relay/trace, relay/load, relay/secure, relay/events, relay/redact, relay/authorize, relay/aggregation, relay/resource, relay/yamlpos, relay/lockorder, relay/pause, relay/rollout, relay/hooks"},
		{"test kit of the tables in a table", "fanout/conversation/a.go", "// Package conversation is.\npackage conversation; import _ \"xdsrelay/relay/transition/transitiontest\"",
			"fanout/conversation/a.go imports xdsrelay/relay/transition/transitiontest: fanout may import only relay/cache, relay/trace, relay/load, relay/events, relay/redact, relay/authorize, relay/aggregation, relay/resource, relay/lockorder, relay/pause, relay/transition"},
		{"unknown part", "docs/a.go", "// Package docs is.\npackage docs",
			"docs/a.go is in no part of the import graph"},
		{"I/O in a pure part", "relay/resource/a.go", `package resource; import _ "net/http"`,
			"relay/resource/a.go imports net/http: relay/resource does no I/O"},
		{"goroutine in a pure part", "relay/aggregation/a.go", "package aggregation\nfunc f() {\n\tgo f()\n}",
			"relay/aggregation/a.go:3 starts a goroutine: relay/aggregation is pure"},
		{"clock in a pure part", "relay/cache/table/a.go", "package table\nimport \"time\"\nvar t = time.Now()",
			"relay/cache/table/a.go:3 reads the clock: relay/cache/table is pure"},
		{"time in a pure part", "relay/cache/table/a.go", "package table\nimport \"time\"\nvar t = time.Unix(0, 0)", ""},
		{"lock in a pure part", "relay/cache/table/a.go", `package table; import _ "sync"`,
			"relay/cache/table/a.go imports sync: relay/cache/table has no locks"},
		{"status in the protocol", "fanout/a.go", `package fanout; import _ "google.golang.org/grpc/status"`, ""},
		{"gRPC in the services", "fanout/services.go", `package fanout; import _ "google.golang.org/grpc"; import _ "xdsrelay/fanout/grpcgo"`, ""},
		{"gRPC in a test of the protocol", "fanout/a_test.go", `package fanout; import _ "google.golang.org/grpc"`, ""},
		{"gRPC in the adapter", "fanout/grpcgo/a.go", "// Package grpcgo is.\npackage grpcgo; import _ \"google.golang.org/grpc/mem\"", ""},
		{"gRPC in the protocol", "fanout/a.go", `package fanout; import _ "google.golang.org/grpc"`,
			"fanout/a.go imports google.golang.org/grpc: of fanout, only services.go, others.go may know more of gRPC than statuses"},
		{"part of gRPC in the protocol", "fanout/a.go", `package fanout; import _ "google.golang.org/grpc/mem"`,
			"fanout/a.go imports google.golang.org/grpc/mem: of fanout, only services.go, others.go may know more of gRPC than statuses"},
		{"adapter in the protocol", "fanout/a.go", `package fanout; import _ "xdsrelay/fanout/grpcgo"`,
			"fanout/a.go imports xdsrelay/fanout/grpcgo: of fanout, only services.go, others.go may know more of gRPC than statuses"},
		{"gRPC in the boundary", "fanout/transport/services.go", "// Package transport is.\npackage transport; import _ \"google.golang.org/grpc\"",
			"fanout/transport/services.go imports google.golang.org/grpc: fanout/transport knows no more of gRPC than statuses"},
		{"no package comment", "fanout/wire/a.go", "package wire",
			`fanout/wire: no file has a package comment that begins "Package wire "`},
		{"no command comment", "cmd/xdsbench/a.go", "package main",
			`cmd/xdsbench: no file has a package comment that begins "Command xdsbench "`},
		{"case-only pair", "fanout/DOC.go", "package fanout",
			"fanout/doc.go and fanout/DOC.go differ only in case, so many file systems cannot hold both"},
		{"stray file at the top", "notes.txt", "", "notes.txt does not belong at the top level"},
		{"stray folder at the top", "pkg/a.txt", "", "pkg does not belong at the top level"},
		{"ignored file at the top", "cover.out", "", ""},
		{"ignored folder at the top", "bin/xdsrelay", "", ""},
		{"ignored Go code", "relay/e2e/node_modules/x/x.go", "package x", ""},
		{"Go code of test data", "relay/testdata/x.go", "no Go at all", ""},
		{"no Go at all", "fanout/a.go", "package", "fanout/a.go:1:8: expected 'IDENT', found 'EOF'"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tree := fstest.MapFS{".gitignore": {Data: []byte("# Built.\n/bin/\n*.out\nnode_modules/\n")}}
			for part := range layers {
				doc := "// Package " + path.Base(part) + " is.\npackage " + path.Base(part)
				if strings.HasPrefix(part, "cmd/") {
					doc = "// Command " + path.Base(part) + " is.\npackage main"
				}
				tree[part+"/doc.go"] = &fstest.MapFile{Data: []byte(doc)}
			}
			if test.name == "no command comment" {
				delete(tree, "cmd/xdsbench/doc.go")
			}
			tree[test.file] = &fstest.MapFile{Data: []byte(test.text)}

			var want []string
			if test.want != "" {
				want = []string{test.want}
			}
			if got := checkHouse(t, tree); !slices.Equal(got, want) {
				t.Errorf("checkHouse =\n\t%q\nwant\n\t%q", got, want)
			}
		})
	}
}

// checkHouse returns every violation in a tree, each a sentence that names the
// file. The tree's root is the repository's.
func checkHouse(t *testing.T, tree fs.FS) []string {
	t.Helper()
	ignored := readIgnored(t, tree)
	var broken []string
	undocumented := map[string]string{} // folder: how its package comment must begin
	spelled := map[string]string{}      // path in lower case: as it is spelled
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case ignored(name):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		lower := strings.ToLower(name)
		if other := spelled[lower]; other != "" {
			broken = append(broken, name+" and "+other+" differ only in case, so many file systems cannot hold both")
		}
		spelled[lower] = name
		if !strings.Contains(name, "/") && !slices.Contains(topLevel, name) {
			broken = append(broken, name+" does not belong at the top level")
		}
		if entry.IsDir() || path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
			return nil
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, source, parser.ParseComments)
		if err != nil {
			broken = append(broken, err.Error())
			return nil
		}
		broken = append(broken, checkImports(name, file)...)
		broken = append(broken, checkGRPC(name, file)...)
		broken = append(broken, checkPure(name, files, file)...)
		noteDoc(undocumented, name, file)
		return nil
	})
	if err != nil {
		t.Fatalf("walk the tree: %v", err)
	}
	for folder, begin := range undocumented {
		if begin != "" {
			broken = append(broken, folder+": no file has a package comment that begins "+strconv.Quote(begin))
		}
	}
	slices.Sort(broken)
	return broken
}

// checkImports holds the graph in one file.
func checkImports(name string, file *ast.File) (broken []string) {
	part, ok := partOf(path.Dir(name))
	if !ok {
		return []string{name + " is in no part of the import graph"}
	}
	allowed := layers[part]
	rule := part + " may import only " + strings.Join(allowed, ", ")
	if len(allowed) == 0 {
		rule = part + " may import nothing of this module"
	}
	if strings.HasSuffix(name, "_test.go") {
		allowed = append(slices.Clone(allowed), testKits...)
		rule += ", and in tests " + strings.Join(testKits, ", ")
	}
	for _, imported := range importsOf(file) {
		folder, ours := strings.CutPrefix(imported, module+"/")
		if !ours {
			continue
		}
		to, _ := partOf(folder)
		switch {
		case folder == "relay" && part == "relay" && path.Dir(name) != "relay":
			broken = append(broken, name+" imports "+imported+": nothing below the node imports it")
		case to != part && !slices.Contains(allowed, to):
			broken = append(broken, name+" imports "+imported+": "+rule)
		}
	}
	return broken
}

// checkGRPC holds in one file that the protocol knows no gRPC. Its tests may.
func checkGRPC(name string, file *ast.File) (broken []string) {
	folder := path.Dir(name)
	may, free := grpcFree[folder]
	if !free || strings.HasSuffix(name, "_test.go") || slices.Contains(may, path.Base(name)) {
		return nil
	}
	rule := folder + " knows no more of gRPC than statuses"
	if len(may) > 0 {
		rule = "of " + folder + ", only " + strings.Join(may, ", ") + " may know more of gRPC than statuses"
	}
	for _, imported := range importsOf(file) {
		ofGRPC := imported == grpcGo || strings.HasPrefix(imported, grpcGo+"/")
		if imported == adapter || ofGRPC && !slices.Contains(statuses, imported) {
			broken = append(broken, name+" imports "+imported+": "+rule)
		}
	}
	return broken
}

// checkPure holds in one file that a pure part does no I/O, starts no goroutines and reads no
// clock. Its tests may.
func checkPure(name string, files *token.FileSet, file *ast.File) (broken []string) {
	part, _ := partOf(path.Dir(name))
	if !slices.Contains(pure, part) || strings.HasSuffix(name, "_test.go") {
		return nil
	}
	for _, imported := range importsOf(file) {
		if slices.Contains(impure, imported) {
			broken = append(broken, name+" imports "+imported+": "+part+" does no I/O")
		}
		if slices.Contains(lockless, part) && slices.Contains(locks, imported) {
			broken = append(broken, name+" imports "+imported+": "+part+" has no locks")
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if statement, ok := node.(*ast.GoStmt); ok {
			line := strconv.Itoa(files.Position(statement.Pos()).Line)
			broken = append(broken, name+":"+line+" starts a goroutine: "+part+" is pure")
		}
		if call, ok := node.(*ast.SelectorExpr); ok && slices.Contains(clock, call.Sel.Name) {
			if of, ok := call.X.(*ast.Ident); ok && of.Name == "time" {
				line := strconv.Itoa(files.Position(call.Pos()).Line)
				broken = append(broken, name+":"+line+" reads the clock: "+part+" is pure")
			}
		}
		return true
	})
	return broken
}

// noteDoc notes whether the package in a file's folder says what it is for. A
// folder of nothing but tests needs to say nothing.
func noteDoc(undocumented map[string]string, name string, file *ast.File) {
	if strings.HasSuffix(name, "_test.go") {
		return
	}
	folder := path.Dir(name)
	begin := "Package " + file.Name.Name + " "
	if file.Name.Name == "main" {
		begin = "Command " + path.Base(folder) + " "
	}
	if _, seen := undocumented[folder]; !seen {
		undocumented[folder] = begin
	}
	if strings.HasPrefix(file.Doc.Text(), begin) {
		undocumented[folder] = ""
	}
}

// partOf returns the listed part that a folder belongs to.
func partOf(folder string) (part string, ok bool) {
	for ; folder != "."; folder = path.Dir(folder) {
		if _, ok := layers[folder]; ok {
			return folder, true
		}
	}
	return "", false
}

// importsOf returns the paths that a file imports.
func importsOf(file *ast.File) []string {
	var paths []string
	for _, spec := range file.Imports {
		if imported, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, imported)
		}
	}
	return paths
}

// readIgnored reads the tree's .gitignore, as far as it is written here: names
// with or without a leading slash (only from the root) and a trailing one (a
// folder), and patterns such as *.out.
func readIgnored(t *testing.T, tree fs.FS) (ignored func(name string) bool) {
	t.Helper()
	text, err := fs.ReadFile(tree, ".gitignore")
	if err != nil {
		t.Fatalf("what is ignored: %v", err)
	}
	patterns := []string{"/.git"}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(strings.TrimSpace(line), "/")
		if line != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, line)
		}
	}
	return func(name string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			rooted, ok := strings.CutPrefix(pattern, "/")
			if ok {
				return rooted == name
			}
			match, err := path.Match(pattern, path.Base(name))
			return err == nil && match
		})
	}
}
