package relay_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"xdsrelay/relay/redact"
)

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

// proseFiles are the files with texts for users. Tests, and programs that only tests run, have none. Results
// of benchmarks stay as they were written.
func proseFiles(t *testing.T) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
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
		deployed := strings.HasPrefix(path, "deploy/") && !strings.HasPrefix(path, "deploy/verify/")
		var is bool
		switch filepath.Ext(path) {
		case ".md":
			is = true
		case ".go":
			is = !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "deploy/") && !strings.HasSuffix(path, ".pb.go")
		case ".yaml":
			is = deployed && !strings.Contains(path, "/templates/") || path == "relay/config/default.yaml" || path == "docs/reference/openapi.yaml"
		case ".js", ".html":
			is = strings.HasPrefix(path, "relay/admin/ui/")
		case ".txt", ".json", ".service":
			is = deployed
		default:
			is = deployed && strings.HasPrefix(d.Name(), "Dockerfile")
		}
		if is {
			all = append(all, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestProse: the texts that users read are in the words of the field: pages, help, messages, descriptions of
// metrics and alerts, comments of configuration, the live page, dashboards, the chart and the API.
func TestProse(t *testing.T) {
	readsFiles(t)
	for _, name := range proseFiles(t) {
		text, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		blocks, wrong := proseOf(t, name, string(text))
		for _, line := range slices.Sorted(maps.Keys(blocks)) {
			for _, w := range proseIn(blocks[line]) {
				wrong = append(wrong, fmt.Sprintf("line %d: %s", line, w))
			}
			if shown := redact.Text(blocks[line]); strings.HasSuffix(name, ".go") && !strings.HasSuffix(blocks[line], "\n") && strings.Contains(shown, redact.Mark) {
				wrong = append(wrong, fmt.Sprintf("line %d: a log would have %q; write it without a colon after the name of a secret", line, shown))
			}
		}
		if len(wrong) > 0 {
			t.Errorf("%s:\n\t%s", name, strings.Join(wrong, "\n\t"))
		}
	}
}

var commitSubject = flag.String("prose.subject", "", "the subject of a commit to check")

// TestCommitSubject: the subject of a commit is in the words of the field, too. "make check" checks the newest
// one; the tests of a clone must not depend on its history.
func TestCommitSubject(t *testing.T) {
	if *commitSubject == "" {
		t.Skip("no -prose.subject")
	}
	for _, w := range subjectIn(*commitSubject) {
		t.Errorf("%q: %s", *commitSubject, w)
	}
}

// subjectIn returns what is wrong with the subject of a commit.
func subjectIn(subject string) []string {
	wrong := proseIn(inlineCode.ReplaceAllString(subject, "CODE"))
	if strings.HasSuffix(subject, ".") {
		wrong = append(wrong, "a subject ends without a period")
	}
	return wrong
}

// proseOf returns the blocks of prose of a file, and what is wrong with its headings.
func proseOf(t *testing.T, name, text string) (blocks map[int]string, wrong []string) {
	t.Helper()
	switch {
	case strings.HasSuffix(name, ".md"):
		return proseOfPage(text)
	case strings.HasSuffix(name, ".go"):
		blocks, err := proseOfGo(name, text)
		if err != nil {
			t.Fatal(err)
		}
		return blocks, nil
	case strings.HasSuffix(name, ".js"):
		return proseOfScript(text), nil
	case strings.HasSuffix(name, ".html"), strings.HasSuffix(name, ".txt"):
		return proseOfPage(templateAction.ReplaceAllString(text, "X"))
	case strings.HasSuffix(name, "alerts.yaml"), strings.HasSuffix(name, "openapi.yaml"), strings.HasSuffix(name, ".json"):
		return proseOfFields(text), nil
	}
	return proseOfYAML(text), nil // also comments of the systemd unit and of Dockerfiles
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
	for name, tc := range map[string]struct {
		file, text string
		want       int
	}{
		"a message":               {"a.go", "package a\n\nvar s = \"it tells clients\"\n", 1},
		"a script of Redis":       {"a.go", "package a\n\nvar s = \"redis.call('tell', all)\"\n", 0},
		"a page in a program":     {"a.go", "package a\n\nvar s = \"| A | B |\\n|---|---|\\n| it tells | it tells |\"\n", 2},
		"a text of the live page": {"a.js", "// tells all\nadd(`it tells ${n} clients`)\n", 1},
		"a title of a dashboard":  {"a.json", `"title": "Clients that were told",`, 1},
		"a description":           {"openapi.yaml", "description: |\n  The relay\n  tells clients.\nname: it tells all", 1},
		"a note of the chart":     {"NOTES.txt", "It tells {{ tell all }}.", 1},
		"a comment":               {"a.service", "# It tells all.\nTell=it tells all", 1},
	} {
		t.Run(name, func(t *testing.T) {
			blocks, wrong := proseOf(t, tc.file, tc.text)
			for _, block := range blocks {
				wrong = append(wrong, proseIn(block)...)
			}
			if len(wrong) != tc.want {
				t.Errorf("%q, expected %d", wrong, tc.want)
			}
		})
	}
	if wrong := subjectIn("The relay tells clients."); len(wrong) != 2 {
		t.Errorf("a subject: %q, expected 2", wrong)
	}
}
