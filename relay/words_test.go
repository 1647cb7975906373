package relay_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// inPlainWords are the folders whose comments and identifiers keep to the words of the field. A
// folder is added when it was gone through.
var inPlainWords = []string{
	"fanout", "fanout/authz", "fanout/bodycache", "fanout/conn", "fanout/conversation", "fanout/limit", "fanout/ready", "fanout/rest", "fanout/sharedgzip",
	"relay/tier", "upstream", "upstream/conversation", "upstream/quarantine",
	"relay/cache", "relay/cache/absence", "relay/cache/confidence", "relay/cache/demand", "relay/cache/guarded", "relay/cache/link", "relay/cache/list", "relay/cache/notes", "relay/cache/pool", "relay/cache/recent", "relay/cache/removals", "relay/cache/table", "relay/cache/tierhead", "relay/resource", "relay/resource/jsontypes", "relay/resource/v2types", "relay/rollout", "relay/hooks", "relay/transition", "relay/transition/transitiontest", "relay/yamlpos", "relay/pause", "relay/xdsclient", "relay/xdsget",
	"shard", "shard/store", "shard/lease", "shard/head", "shard/lastgood", "shard/ledger", "shard/redistest", "shard/redistest/standin",
}

// wordsNotUsed are the words that comments do without, by what to write instead.
var wordsNotUsed = []struct {
	word    *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\b(re)?(told|tell|tells|telling)\b`), "notify, report, send"},
	{regexp.MustCompile(`(?i)\b(anew|afresh)\b`), "again"},
	{regexp.MustCompile(`(?i)\bfor ever\b`), "indefinitely"},
	{regexp.MustCompile(`(?i)\bof late\b`), "recently"},
	{regexp.MustCompile(`(?i)\b(beside|likewise|seldom|whoever|in its place|in good time|none the less)\b`), "besides, as well, rarely, the noun"},
	{regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`), "fix"},
	{regexp.MustCompile(`(?i)\b(as it was|what there is)\b`), "unchanged, the content"},
	{regexp.MustCompile(`(?i)\b(newcomers?|guests?|visitors?|strangers?)\b`), "client, connection"},
	{regexp.MustCompile(`(?i)\b(turned|sent) (away|down)\b`), "refused, rejected, shed"},
	{regexp.MustCompile(`(^|[.:;] )(Who|What) (?:[^.?]*)\.`), "the noun"},
}

// partsNotUsed are the words that identifiers do without.
var partsNotUsed = map[string]string{
	"told": "notify, report, send", "tell": "notify, report, send", "retold": "resend", "anew": "again",
	"newcomer": "client", "guest": "conn", "visitor": "client", "visitors": "clients", "stranger": "client", "strangers": "clients",
	"stray": "ghost", "strays": "ghosts", "graves": "tombstones", "bury": "tombstone", "disown": "release", "heir": "fallback", "enrol": "index", "struck": "unindexed",
	"marred": "tainted", "hopeless": "the reason", "lapse": "expire", "lapsed": "expired", "aside": "error only", "remark": "resource error", "mortal": "close on shutdown",
}

// TestWords: LANGUAGE of the code: the folders of inPlainWords have none of the words that only
// their authors know.
func TestWords(t *testing.T) {
	readsFiles(t)
	for _, dir := range inPlainWords {
		files, err := fs.Glob(os.DirFS(".."), dir+"/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, name := range files {
			text, err := os.ReadFile("../" + name)
			if err != nil {
				t.Fatal(err)
			}
			for _, broken := range notPlain(t, name, string(text)) {
				t.Error(broken)
			}
		}
	}
}

// TestWordsChecker holds that the checker sees each kind.
func TestWordsChecker(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want int
	}{
		"plain":                     {"// F sends a request.\nfunc F() {}", 0},
		"a word":                    {"// F tells the server.\nfunc F() {}", 1},
		"a word over two lines":     {"// F sends it for\n// ever.\nfunc F() {}", 1},
		"a pronoun as the subject":  {"// F sends. Who has none gets one.\nfunc F() {}", 1},
		"a question":                {"// What is sent?\nfunc F() {}", 0},
		"an identifier":             {"func tellAll() {}", 1},
		"a word within another one": {"func intellect() {}", 0},
		"a field":                   {"type T struct{ isTold bool }", 1},
		"code in a string":          {"var S = \"tell\"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := notPlain(t, "a.go", "package a\n\n"+tc.text+"\n"); len(got) != tc.want {
				t.Errorf("%q, expected %d", got, tc.want)
			}
		})
	}
}

// notPlain returns the comments and declared identifiers of a file that use such words.
func notPlain(t *testing.T, name, text string) (all []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	add := func(at token.Pos, word, instead string) {
		all = append(all, files.Position(at).String()+": "+word+"; say: "+instead)
	}
	for _, group := range file.Comments {
		for _, not := range wordsNotUsed {
			for _, found := range not.word.FindAllString(strings.ReplaceAll(group.Text(), "\n", " "), -1) {
				add(group.Pos(), found, not.instead)
			}
		}
	}
	of := make(map[*ast.Ident]bool) // names of other things, which are looked at where they are declared
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			of[s.Sel] = true
		}
		if id, ok := n.(*ast.Ident); ok && !of[id] {
			for _, part := range wordsOf(id.Name) {
				if instead := partsNotUsed[part]; instead != "" {
					add(id.Pos(), id.Name, instead)
				}
			}
		}
		return true
	})
	return all
}

// wordsOf splits an identifier into its words, in lower case.
func wordsOf(name string) []string {
	return strings.FieldsFunc(strings.ToLower(regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "$1 $2")), func(r rune) bool {
		return !unicode.IsLetter(r)
	})
}
