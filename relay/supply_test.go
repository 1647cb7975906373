package relay_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fetches finds what brings a program or a package from elsewhere, and pinned what it
// must be like.
var fetches = []struct{ finds, pinned *regexp.Regexp }{
	{regexp.MustCompile(`(?:\bgo|\$\(GO\)) (?:install|run) \S+@\S+`), regexp.MustCompile(`@(?:v\d+\.\d+\.\d+|\$\(\w+_VERSION\)|\$\{\w+_VERSION\})$`)},
	{regexp.MustCompile(`\bgo get\b.*`), nil},
	{regexp.MustCompile(`\b(?:npm (?:install|i|update|exec)|npx|yarn|pnpm)\b.*`), nil},
	{regexp.MustCompile(`\bpip3? install\b.*`), nil},
	{regexp.MustCompile(`(?:curl|wget)\b[^|\n]*https?://\S*[a-z]\.[a-z]+/.*`), nil}, // but for this machine
	{regexp.MustCompile(`(?m)^[ \t]*(?:- +)?(?:FROM +(?:--platform=\S+ +)?|image:[ \t]*["']?)[\w./-]+[^\s"'{]*`), regexp.MustCompile(`scratch$|xdsrelay:(?:latest|compose)$|:v?\d[\w.-]*$|@sha256:[0-9a-f]{64}$`)},
}

// unpinned lists what a file fetches in no certain version.
func unpinned(text string) (found []string) {
	for _, f := range fetches {
		for _, match := range f.finds.FindAllString(text, -1) {
			if match = strings.TrimSpace(match); f.pinned == nil || !f.pinned.MatchString(match) {
				found = append(found, match)
			}
		}
	}
	return found
}

// TestFetched: whatever builds, tests and manifests fetch is named with its version,
// and each package of npm with its checksum. Packages of Debian are its stable
// release's, whose checksums it signs.
func TestFetched(t *testing.T) {
	readsFiles(t)
	files := 0
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			if slices.Contains([]string{".git", ".bin", "bin", "node_modules", "testdata"}, base) {
				return fs.SkipDir
			}
			return nil
		}
		script := strings.HasPrefix(name, ".ci/") || base == "Makefile" || base == "Dockerfile" || base == "run"
		if !script && !slices.Contains([]string{".sh", ".yaml", ".yml"}, path.Ext(name)) && base != "package-lock.json" {
			return nil
		}
		files++
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if base == "package-lock.json" {
			checkLock(t, name, text)
			return nil
		}
		for _, match := range unpinned(string(text)) {
			t.Errorf("%s: in no certain version: %s", name, match)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("only %d files were looked at", files)
	}
}

// checkLock holds that each package of a lock file has a checksum.
func checkLock(t *testing.T, name string, text []byte) {
	t.Helper()
	var lock struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	if err := json.Unmarshal(text, &lock); err != nil || len(lock.Packages) < 2 {
		t.Fatalf("%s has %d packages, %v", name, len(lock.Packages), err)
	}
	for of, p := range lock.Packages {
		if of != "" && (p.Version == "" || !strings.HasPrefix(p.Integrity, "sha512-")) {
			t.Errorf("%s: %s has the version %q and the checksum %q", name, of, p.Version, p.Integrity)
		}
	}
}

// TestFetchedChecker: the check above sees what it is for.
func TestFetchedChecker(t *testing.T) {
	for _, text := range []string{
		"go install example.com/a@latest", "go run example.com/a@v1", "cd x && npm install", "npx a", "pip install grpcio", "go get example.com/a",
		"curl -fsSL https://example.com/install.sh | sh", "FROM golang\n", "FROM --platform=x golang:latest AS build", "    image: redis\n", "  - image: envoy:latest",
	} {
		if len(unpinned(text)) == 0 {
			t.Errorf("%q passes", text)
		}
	}
	for _, text := range []string{
		"$(GO) install example.com/a@$(A_VERSION)", "go install example.com/a@v1.2.3", "npm ci", "curl -fsS http://127.0.0.1:1/x", "FROM scratch",
		"FROM golang:1.26 AS build", "image: redis:7-alpine", "image: a/b@sha256:" + strings.Repeat("0", 64), "image: {{ include \"x\" . }}",
	} {
		if found := unpinned(text); len(found) > 0 {
			t.Errorf("%q: %q", text, found)
		}
	}
}

// testModules are the modules that go.mod requires for tests and load tools alone, each
// with the reason in docs/internals/architecture.md.
var testModules = []string{
	"github.com/HdrHistogram/hdrhistogram-go", "github.com/envoyproxy/go-control-plane", "github.com/envoyproxy/go-control-plane/ratelimit",
	"github.com/yuin/gopher-lua", "go.uber.org/goleak", "golang.org/x/tools", "pgregory.net/rapid",
}

// TestProgramModules holds that every module which go.mod requires directly is compiled
// into the program, except those listed above: what only tests need belongs into a module
// of its own where that is possible.
func TestProgramModules(t *testing.T) {
	readsFiles(t)
	var required struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(goOutput(t, "mod", "edit", "-json"), &required); err != nil {
		t.Fatal(err)
	}
	compiled := strings.Fields(string(goOutput(t, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/xdsrelay")))
	reasons := readPage(t, "docs/internals/architecture.md").text
	for _, m := range required.Require {
		switch listed := slices.Contains(testModules, m.Path); {
		case listed && slices.Contains(compiled, m.Path):
			t.Errorf("%s is listed as a module for tests, but the program imports it", m.Path)
		case !listed && !m.Indirect && !slices.Contains(compiled, m.Path):
			t.Errorf("%s is required, but the program does not import it: move what needs it to a nested module, or list it here and in docs/internals/architecture.md", m.Path)
		}
	}
	for _, module := range testModules {
		if _, name, _ := strings.Cut(module, "/"); !strings.Contains(reasons, module) && !strings.Contains(reasons, "`"+path.Base(name)+"`") {
			t.Errorf("docs/internals/architecture.md does not say why go.mod requires %s", module)
		}
	}
}

// goOutput runs the go command at the root of the repository.
func goOutput(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = ".."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}
