package relay_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var updateProse = flag.Bool("prose.update", false, "write testdata/prose.json: how many findings each file may still have")

// longest is how many words a sentence should have at most.
const longest = 35

// proseRules are words and phrases that users cannot look up, and spellings of British English.
// Each has what to write instead.
var proseRules = []struct {
	found   *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\b(re)?(told|tell|tells|telling)\b`), "notify, report, send, show"},
	{regexp.MustCompile(`(?i)\b(anew|afresh)\b`), "again"},
	{regexp.MustCompile(`(?i)\bfor ever\b`), "indefinitely"},
	{regexp.MustCompile(`(?i)\bof late\b`), "recently"},
	{regexp.MustCompile(`(?i)\b(beside|likewise|seldom|whoever|whomever|whichever|none the less|moreover)\b`), "next to, also, rarely, the noun"},
	{regexp.MustCompile(`(?i)\bbeyond\b`), "over, after, exceed"},
	{regexp.MustCompile(`(?i)\b(in its place|in their place|in good time|in the course of)\b`), "instead, before, during"},
	{regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`), "fix"},
	{regexp.MustCompile(`(?i)\b(as it was|what there is|as it stands|as they stand|is to be had|no more than that)\b`), "unchanged, the content"},
	{regexp.MustCompile(`(?i)\bno (more|longer) good\b|\bgood no more\b`), "no longer valid"},
	{regexp.MustCompile(`(?i)\b(newcomers?|guests?|visitors?|strangers?)\b`), "client, connection"},
	{regexp.MustCompile(`(?i)\b(turn|turns|turned|send|sends|sent|sending) away\b`), "refuse, shed, rebalance"},
	{regexp.MustCompile(`(?i)\bturn(s|ed)? down\b`), "reject"},
	{regexp.MustCompile(`(?i)\b(comes?|came|goes|went|stands?|stood)\b`), "connect, arrive, disconnect, be in state"},
	{regexp.MustCompile(`(?i)\bgive(s|n)? or take\b`), "plus or minus"},
	{regexp.MustCompile(`(?i)\b(out of|within|in) reach\b`), "unreachable, reachable"},
	{regexp.MustCompile(`(?i)\bnobody|\bno one\b`), "no client, no node"},
	{regexp.MustCompile(`(?i)\b(says?|said|speaks?|spoke|spoken)\b`), "specifies, reports, uses"},
	{regexp.MustCompile(`(^|[.:;] )(Who|What) [^.?]*\.`), "the noun"},
	{regexp.MustCompile(`(?i)\b(behaviou?rs?|colou?rs?|favou?rs?|neighbou?rs?|honou?rs?|labell?ed|labell?ing|cancell(ed|ing)|travell(ed|ing)|modell(ed|ing)|dialled|dialling|signall(ed|ing)|centres?|licence|defence|grey|catalogue|programme|whilst|amongst|towards|afterwards)\b`), "the US spelling"},
	{regexp.MustCompile(`(?i)\b\w+(isation|ising)\b|\b(organi|recogni|reali|initiali|seriali|summari|normali|minimi|maximi|optimi|authori|synchroni|prioriti|customi|utili|emphasi|generali|speciali)s(e|es|ed)\b`), "the US spelling, with z"},
}

// usSpelling are matches of proseRules that are right all the same: US spellings, and the status of gRPC.
var usSpelling = regexp.MustCompile(`^CANCELLED$|(?i)^(behaviors?|colors?|favors?|neighbors?|honors?|labeled|labeling|raising|rising|advertising|comprising|promising|arising|surprising|exercising|revising|advising|supervising|bypassing|noising|disguising|compromising)$`)

// proseIn returns what is wrong with the sentences of a text, which is prose without markup.
func proseIn(text string) (wrong []string) {
	for _, rule := range proseRules {
		for _, word := range rule.found.FindAllString(text, -1) {
			if !usSpelling.MatchString(strings.TrimSpace(word)) {
				wrong = append(wrong, fmt.Sprintf("%q; write: %s", strings.TrimSpace(word), rule.instead))
			}
		}
	}
	for sentence := range sentencesOf(text) {
		if n := len(strings.Fields(sentence)); n > longest {
			wrong = append(wrong, fmt.Sprintf("a sentence of %d words, where %d are readable: %.60s…", n, longest, sentence))
		}
	}
	return wrong
}

var sentenceEnd = regexp.MustCompile(`[.?!;:]["”)]?(\s+|$)`)

func sentencesOf(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, s := range sentenceEnd.Split(strings.Join(strings.Fields(text), " "), -1) {
			if s != "" && !yield(s) {
				return
			}
		}
	}
}

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	named      = regexp.MustCompile(`\[[a-z0-9]+(-[a-z0-9]+)+\]\([^)]*\)`) // a link to a file by its name
	link       = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	lineBreak  = regexp.MustCompile(`<br>|</(p|li|td|h\d)>`) // which ends a sentence
	htmlTag    = regexp.MustCompile(`<[^>]*>`)
	emphasis   = regexp.MustCompile(`\*\*`)
	listMark   = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	question   = regexp.MustCompile(`(?i)^(who|what|where|when|why|how|if|whether)\b`)
)

// proseOfPage returns the blocks of prose of a Markdown page, by the line on which each begins, and what is
// wrong with its headings.
func proseOfPage(text string) (blocks map[int]string, wrong []string) {
	blocks = make(map[int]string)
	code, start := false, 0
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code, start = !code, 0
			continue
		}
		plain := emphasis.ReplaceAllString(htmlTag.ReplaceAllString(lineBreak.ReplaceAllString(link.ReplaceAllString(named.ReplaceAllString(inlineCode.ReplaceAllString(line, "CODE"), "CODE"), "$1"), ". "), ""), "")
		switch {
		case code:
		case strings.TrimSpace(plain) == "":
			start = 0
		case strings.HasPrefix(plain, "#"):
			start = 0
			heading := strings.TrimSpace(strings.TrimLeft(plain, "#"))
			if question.MatchString(heading) && !strings.HasPrefix(heading, "How to ") && !strings.HasSuffix(heading, "?") {
				wrong = append(wrong, fmt.Sprintf("line %d: the heading %q is a clause; write the noun that readers search for", i+1, heading))
			}
			blocks[i+1] = heading
		case strings.HasPrefix(strings.TrimSpace(plain), "|"):
			start = 0
			blocks[i+1] = strings.ReplaceAll(plain, "|", ". ")
		case listMark.MatchString(plain):
			start = i + 1
			blocks[start] = listMark.ReplaceAllString(plain, "")
		default:
			if start == 0 {
				start = i + 1
			}
			blocks[start] += " " + plain
		}
	}
	return blocks, wrong
}

// proseOfYAML returns the blocks of comments of a YAML file.
func proseOfYAML(text string) map[int]string {
	blocks, start := make(map[int]string), 0
	for i, line := range strings.Split(text, "\n") {
		comment, is := strings.CutPrefix(strings.TrimSpace(line), "#")
		comment = strings.TrimLeft(comment, "#@ ")
		if !is || comment == "" {
			start = 0
			continue
		}
		if start == 0 {
			start = i + 1
		}
		blocks[start] += " " + inlineCode.ReplaceAllString(comment, "CODE")
	}
	return blocks
}

// proseOfAlerts returns the texts of alerts: values of summary and description.
func proseOfAlerts(text string) map[int]string {
	blocks, key, start := make(map[int]string), "", 0
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if k, v, ok := strings.Cut(trimmed, ":"); ok && !strings.Contains(k, " ") {
			if key, start = k, i+1; key == "summary" || key == "description" {
				blocks[start] = " " + strings.Trim(v, ` >|"-`)
			}
		} else if key == "summary" || key == "description" {
			blocks[start] += " " + trimmed
		}
	}
	return blocks
}

var (
	verb  = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]`)
	words = regexp.MustCompile(`[A-Za-z]{2,}[,;:]? [A-Za-z(%"]`)
)

// proseOfGo returns the texts of a program that users may read: each string with more than one word.
func proseOfGo(name, text string) (map[int]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	blocks := make(map[int]string)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BinaryExpr: // a text in several pieces
			if s, ok := joined(n); ok {
				add(blocks, files.Position(n.Pos()).Line, s)
				return false
			}
		case *ast.BasicLit:
			if s, ok := joined(n); ok {
				add(blocks, files.Position(n.Pos()).Line, s)
			}
		}
		return true
	})
	return blocks, nil
}

func add(blocks map[int]string, line int, s string) {
	if strings.Contains(s, "\n|---") { // a page in Markdown
		page, _ := proseOfPage(s)
		for n, block := range page {
			blocks[line+n-1] += ". " + verb.ReplaceAllString(block, "X")
		}
		return
	}
	// Scripts of Redis are no prose.
	if words.MatchString(s) && !strings.Contains(s, "://") && !strings.Contains(s, "redis.call(") {
		s = strings.ReplaceAll(s, "\n  ", ". ") // an indented line is an item of a list
		blocks[line] += ". " + verb.ReplaceAllString(inlineCode.ReplaceAllString(s, "CODE"), "X")
	}
}

// joined returns the text of strings that are added to each other.
func joined(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		x, okX := joined(e.X)
		y, okY := joined(e.Y)
		return x + y, e.Op == token.ADD && okX && okY
	}
	return "", false
}

// proseFiles are the files with texts for users. Tests, and programs that only tests run, have none.
func proseFiles(t *testing.T) (all []string) {
	t.Helper()
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch path {
			case ".git", ".bin", "bin", "bench/results", "relay/sim", "relay/robust", "relay/hostile", "relay/e2e", "relay/canary", "relay/xdstest", "shard/redistest":
				return fs.SkipDir
			}
			if d.Name() == "node_modules" || d.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		switch filepath.Ext(path) {
		case ".md":
			all = append(all, path)
		case ".go":
			if !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "deploy/") && !strings.HasSuffix(path, ".pb.go") {
				all = append(all, path)
			}
		case ".yaml":
			if strings.HasPrefix(path, "deploy/") && !strings.Contains(path, "/templates/") || path == "relay/config/default.yaml" {
				all = append(all, path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestProse: the texts that users read are in the words of the field: pages, help, messages, descriptions of
// metrics and alerts, comments of configuration. A file that testdata/prose.json lists may have as many
// findings as it has there, and no more; none is added to it.
func TestProse(t *testing.T) {
	const budget = "testdata/prose.json"
	allowed := make(map[string]int)
	if text, err := os.ReadFile(budget); err == nil {
		if err := json.Unmarshal(text, &allowed); err != nil {
			t.Fatal(err)
		}
	}
	has := make(map[string]int)
	for _, name := range proseFiles(t) {
		text, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		var blocks map[int]string
		var wrong []string
		switch {
		case strings.HasSuffix(name, ".md"):
			blocks, wrong = proseOfPage(string(text))
		case strings.HasSuffix(name, ".go"):
			if blocks, err = proseOfGo(name, string(text)); err != nil {
				t.Fatal(err)
			}
		case strings.HasSuffix(name, "alerts.yaml"):
			blocks = proseOfAlerts(string(text))
		default:
			blocks = proseOfYAML(string(text))
		}
		for _, line := range slices.Sorted(maps.Keys(blocks)) {
			for _, w := range proseIn(blocks[line]) {
				wrong = append(wrong, fmt.Sprintf("line %d: %s", line, w))
			}
		}
		if len(wrong) > 0 {
			has[name] = len(wrong)
		}
		if !*updateProse && len(wrong) > allowed[name] {
			t.Errorf("%s has %d findings, %d are allowed:\n\t%s", name, len(wrong), allowed[name], strings.Join(wrong, "\n\t"))
		}
		if testing.Verbose() {
			for _, w := range wrong {
				fmt.Printf("%s: %s\n", name, w)
			}
		}
	}
	if *updateProse {
		text, err := json.MarshalIndent(has, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(budget, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for name, n := range allowed {
		if has[name] < n {
			t.Errorf("%s has %d findings, but %s allows %d: run go test ./relay -run '^TestProse$' -args -prose.update", name, has[name], budget, n)
		}
	}
}

// TestProseChecker holds that the check sees mistakes in pages, and nothing else.
func TestProseChecker(t *testing.T) {
	words := strings.Repeat("word ", longest-1) + "word"
	for name, tc := range map[string]struct {
		page string
		want int
	}{
		"a sentence":                    {words + ".", 0},
		"a long sentence":               {words + " more.", 1},
		"a bold sentence, then another": {"**Converges.** " + words + ".", 0},
		"items of a cell are sentences": {"| " + words + "<br>" + words + " |", 0},
		"cells are sentences":           {"| " + words + " | " + words + " |", 0},
		"a word":                        {"The relay tells it.", 1},
		"a word in code":                {"The relay runs `tell`.", 0},
		"a word in the name of a file":  {"See [clients-are-told](told.txt).", 0},
		"a word in a link":              {"See [clients are told](told.txt).", 1},
		"a British spelling":            {"The stream is cancelled.", 1},
		"a status of gRPC":              {"The stream ends with CANCELLED.", 0},
		"a clause as a heading":         {"# Who gets it", 1},
		"a question as a heading":       {"# Who gets it?", 0},
	} {
		t.Run(name, func(t *testing.T) {
			blocks, wrong := proseOfPage(tc.page)
			for _, block := range blocks {
				wrong = append(wrong, proseIn(block)...)
			}
			if len(wrong) != tc.want {
				t.Errorf("%q, expected %d", wrong, tc.want)
			}
		})
	}
}
