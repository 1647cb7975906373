package relay_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mapPage answers where in the code something is decided.
const mapPage = "docs/internals/map.md"

// mapForm is a link to a file or a name in code.
var mapForm = regexp.MustCompile("\\[([^\\]]+\\.go)\\]\\(([^)]+)\\)|`([A-Za-z][A-Za-z.]*)`")

// TestMap: each answer of the map links files, and each file declares what is named after it.
func TestMap(t *testing.T) {
	text, err := os.ReadFile("../" + mapPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range checkMap("..", string(text)) {
		t.Error(broken)
	}
}

// TestMapChecker holds that the checker sees each kind of mistake.
func TestMapChecker(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "a"), 0o750); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"a/x.go": "package a\ntype T struct{}\nfunc (t *T) Do() {}\nfunc f() {}\nconst c = 1\n",
		"a/y.go": "package a\nfunc moved() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for row, want := range map[string]string{
		"| q? | [a/x.go](../../a/x.go) `T.Do` and `f`, `T`, `c` |": "",
		"| q? | [a/x.go](../../a/x.go) `moved` |":                  "a/x.go declares no `moved`, but a/y.go does",
		"| q? | [a/x.go](../../a/x.go) `lost` |":                   "a/x.go declares no `lost`, nor does another file of a",
		"| q? | [b/x.go](../../b/x.go) `f` |":                      "there is no b/x.go; files of that name: a/x.go",
		"| q? | [a/x.go](../../a/y.go) `f` |":                      "the link to a/x.go leads to a/y.go",
		"| q? | `f` |":                                             "`f` is named before any file",
		"| q? | the answer |":                                      "there is no link to a file with a name after it",
	} {
		got := strings.Join(checkMap(root, "| Where | Answer |\n|---|---|\n"+row+"\n"), "\n")
		if want != "" {
			want = mapPage + ": q?: " + want
		}
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", row, got, want)
		}
	}
}

// checkMap returns a sentence for each mistake in the rows of a map.
func checkMap(root, text string) (wrong []string) {
	for row := range strings.SplitSeq(text, "\n") {
		cells := strings.Split(row, " | ")
		if len(cells) != 2 || !strings.HasSuffix(cells[0], "?") {
			continue
		}
		add := func(format string, args ...any) {
			wrong = append(wrong, mapPage+": "+strings.TrimPrefix(cells[0], "| ")+": "+fmt.Sprintf(format, args...))
		}
		file, linked, names := "", false, 0 // file is empty where the link is broken
		for _, m := range mapForm.FindAllStringSubmatch(cells[1], -1) {
			link, target, name := m[1], m[2], m[3]
			switch {
			case link != "":
				file, linked = path.Join(path.Dir(mapPage), target), true
				if file != link {
					add("the link to %s leads to %s", link, file)
					file = ""
					continue
				}
				if _, err := os.Stat(filepath.Join(root, file)); err != nil {
					add("there is no %s; files of that name: %s", file, cmp.Or(strings.Join(filesCalled(root, path.Base(file)), ", "), "none"))
					file = ""
				}
			case !linked:
				add("`%s` is named before any file", name)
			case file != "" && !slices.Contains(declaredIn(filepath.Join(root, file)), name):
				if others := filesThatDeclare(root, path.Dir(file), name); len(others) > 0 {
					add("%s declares no `%s`, but %s does", file, name, strings.Join(others, ", "))
				} else {
					add("%s declares no `%s`, nor does another file of %s", file, name, path.Dir(file))
				}
			}
			if name != "" {
				names++
			}
		}
		if names == 0 {
			add("there is no link to a file with a name after it")
		}
	}
	return wrong
}

// filesCalled returns the files of a name, from root.
func filesCalled(root, name string) (files []string) {
	_ = filepath.WalkDir(root, func(at string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && at != root {
			return filepath.SkipDir
		}
		if err == nil && d.Name() == name {
			if rel, err := filepath.Rel(root, at); err == nil {
				files = append(files, filepath.ToSlash(rel))
			}
		}
		return nil
	})
	return files
}

// filesThatDeclare returns the files of a folder that declare a name.
func filesThatDeclare(root, dir, name string) (files []string) {
	all, _ := filepath.Glob(filepath.Join(root, dir, "*.go"))
	for _, file := range all {
		if slices.Contains(declaredIn(file), name) {
			files = append(files, path.Join(dir, filepath.Base(file)))
		}
	}
	return files
}

// declaredIn returns the names that a file declares: of methods with their type, T.M.
func declaredIn(file string) (names []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	for _, decl := range parsed.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiverOf(d.Recv.List[0].Type) + "." + name
			}
			names = append(names, name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						names = append(names, id.Name)
					}
				}
			}
		}
	}
	return names
}

// receiverOf returns the name of a receiver's type.
func receiverOf(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiverOf(x.X)
	case *ast.IndexExpr:
		return receiverOf(x.X)
	case *ast.IndexListExpr:
		return receiverOf(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
