package relay_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// page is a document for readers.
type page struct {
	name    string // from the root: docs/reference/cli.md
	text    string // without what stands in code blocks
	links   []string
	anchors []string
}

var (
	linkForm   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	sourceForm = regexp.MustCompile(`(?:src|srcset|href)="([^"]+)"`)
	codeForm   = regexp.MustCompile("(?s)```.*?\n```")
	anchorForm = regexp.MustCompile(`<a id="([^"]+)"></a>`)
	headForm   = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	inlineForm = regexp.MustCompile("`[^`\n]*`")
)

func readPage(t *testing.T, name string) page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	p := page{name: name, text: codeForm.ReplaceAllString(string(text), "")}
	plain := inlineForm.ReplaceAllString(p.text, "")
	for _, form := range []*regexp.Regexp{linkForm, sourceForm} {
		for _, m := range form.FindAllStringSubmatch(plain, -1) {
			p.links = append(p.links, m[1])
		}
	}
	for _, m := range headForm.FindAllStringSubmatch(p.text, -1) {
		p.anchors = append(p.anchors, anchor(m[1]))
	}
	for _, m := range anchorForm.FindAllStringSubmatch(p.text, -1) {
		p.anchors = append(p.anchors, m[1])
	}
	return p
}

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	heading = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1")
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// pages are the documents at the top of the repository, and all in docs.
func pages(t *testing.T) map[string]page {
	t.Helper()
	all := make(map[string]page)
	for name := range files(t) {
		if path.Ext(name) == ".md" && (path.Dir(name) == "." || strings.HasPrefix(name, "docs/")) {
			all[name] = readPage(t, name)
		}
	}
	return all
}

// files are the names of all files of the repository, from its root.
func files(t *testing.T) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			all[name] = true
		case d.Name() == "node_modules", name == ".git", name == ".bin", name == "bin":
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// leads resolves a link of a page; ok is false for those that leave the repository.
func (p page) leads(link string) (file, anchor string, ok bool) {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return "", "", false
	}
	file, anchor, _ = strings.Cut(link, "#")
	if file == "" {
		return p.name, anchor, true
	}
	return path.Join(path.Dir(p.name), file), anchor, true
}

// TestLinksLead: every relative link of the documents, and every picture, is there, and
// so is the heading that it names.
func TestLinksLead(t *testing.T) {
	readsFiles(t)
	all := pages(t)
	for _, p := range all {
		for _, link := range p.links {
			file, anchor, ok := p.leads(link)
			if !ok {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", file)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", p.name, link)
				continue
			}
			if to, isPage := all[file]; isPage && anchor != "" && !slices.Contains(to.anchors, anchor) {
				t.Errorf("%s: %s has no heading #%s", p.name, file, anchor)
			}
		}
	}
}

// TestPagesAreReached: links lead from the map, docs/index.md, to every page, and pages show every
// picture.
func TestPagesAreReached(t *testing.T) {
	readsFiles(t)
	const start = "docs/index.md"
	all := pages(t)
	reached := map[string]bool{start: true}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		p := all[queue[0]]
		for _, link := range p.links {
			file, _, ok := p.leads(link)
			if _, isPage := all[file]; ok && isPage && !reached[file] {
				queue = append(queue, file)
			}
			if ok {
				reached[file] = true
			}
		}
	}
	pictures, err := filepath.Glob("../docs/img/*")
	if err != nil {
		t.Fatal(err)
	}
	atTop := []string{"README.md", "docs/SECURITY.md"} // where readers and GitHub begin
	for name := range all {
		if !reached[name] && !slices.Contains(atTop, name) {
			t.Errorf("no link leads from %s to %s", start, name)
		}
	}
	for _, picture := range pictures {
		if name := path.Join("docs/img", filepath.Base(picture)); !reached[name] {
			t.Errorf("no page shows %s", name)
		}
	}
}

// TestMapListsPages: the map itself links to every page in docs.
func TestMapListsPages(t *testing.T) {
	all := pages(t)
	index := all["docs/index.md"]
	listed := make(map[string]bool)
	for _, link := range index.links {
		file, _, _ := index.leads(link)
		listed[file] = true
	}
	for name := range all {
		if strings.HasPrefix(name, "docs/") && name != index.name && !listed[name] {
			t.Errorf("docs/index.md does not list %s", name)
		}
	}
}

// TestNamesDifferInMoreThanCase: no two files or folders have names that differ only in case, since
// many file systems cannot hold both.
func TestNamesDifferInMoreThanCase(t *testing.T) {
	seen := make(map[string]string)
	for name := range files(t) {
		for ; name != "."; name = path.Dir(name) {
			if other := seen[strings.ToLower(name)]; other != "" && other != name {
				t.Errorf("%s and %s differ only in case", other, name)
			}
			seen[strings.ToLower(name)] = name
		}
	}
}
