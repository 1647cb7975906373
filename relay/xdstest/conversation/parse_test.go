package conversation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMistakes: every mistake in a script is an error that says where and what.
func TestMistakes(t *testing.T) {
	good := "origin has eds a=1\n"
	for _, test := range []struct{ name, headers, lines, want string }{
		{"unknown header", "upp: delta", good, `B1_try.txtar:2: unknown header "upp"`},
		{"header twice", "up: delta\nup: sotw", good, "B1_try.txtar:3: up: is there twice"},
		{"header without value", "up:", good, "B1_try.txtar:2: the head has lines"},
		{"unknown variant", "down: sotw", good, `down: "sotw" is not one of sotw-ads`},
		{"unknown rule", "rules: B1 Z9", good, `"Z9" is no rule`},
		{"rules without the file's", "rules: B2", good, "does not name B1"},
		{"origins twice", "origin: scripted\norigins: a, b", good, "either origin: or origins:"},
		{"unknown kind of origin", "origin: lazy", good, "an origin is scripted or automatic"},
		{"unknown part", "up: delta", good + "-- extra --\n", `B1_try.txtar:6: unknown part "extra"`},
		{"no conversation", "up: delta", "\n# nothing\n", "there is no conversation"},
		{"unknown condition", "up: delta", "[maybe] alice subscribes cds", "B1_try.txtar:5: unknown condition [maybe]: [maybe] alice"},
		{"unknown verb", "up: delta", "alice wonders", "alice does something unknown; a client acks"},
		{"unknown verb of an origin", "up: delta", "origin wonders", "origin does something unknown"},
		{"verb of the other kind", "up: delta", "origin says eds a=1", "only scripted origins can do that: says"},
		{"verb of the other kind, too", "origin: scripted", "origin has eds a=1", "only automatic origins can do that: has"},
		{"nobody", "up: delta", "alcie gets cds nothing", "alcie has not appeared yet"},
		{"unknown type", "up: delta", "alice subscribes clusters", "clusters is no type; use cds"},
		{"quote", "up: delta", "alice subscribes eds 'a", "a ' is not closed"},
		{"brace", "up: delta", "origin has eds a=1{ttl=1s", "a { is not closed"},
		{"other brace", "up: delta", "origin has eds a=1}", "a } closes nothing"},
		{"after a brace", "up: delta", "origin has eds a=1{ttl=1s}b", "a space is missing after }"},
		{"nothing after $", "up: delta", "alice subscribes eds $", "a $ is followed by no name"},
		{"let twice", "up: delta", "let A b\nlet A c", "A is set twice"},
		{"no content", "up: delta", "origin has eds a", "a needs a content, like a=1"},
		{"no tag", "up: delta", "origin has eds a=", "a has a = but no tag after it"},
		{"ambiguous name", "up: delta", "origin has eds xdstp://x/y?a=1", "is ambiguous"},
		{"unknown attribute", "up: delta", "origin has eds a=1{color=red}", "a: unknown attribute color=red"},
		{"attribute of what is expected", "up: delta", good + "alice subscribes eds\nalice gets eds a=1{service=x}", "unknown attribute service=x"},
		{"bodyless with a tag", "up: delta", "origin has eds a=1{bodyless}", "has no body, so it has no tag"},
		{"bare and wrapped", "up: delta", "origin has eds a=1{bare wrapped}", "either bare or wrapped"},
		{"bad TTL", "up: delta", "origin has eds a=1{ttl=long}", `invalid duration "long"`},
		{"tag for two contents", "up: delta", "origin has cds a=1\norigin has cds a=1{static}", "a=1 stands for something else further up"},
		{"content that nobody says", "up: delta", good + "alice subscribes eds a\nalice gets eds a=2", "no origin says a=2 further up"},
		{"twice in a frame", "up: delta", good + "alice subscribes eds a\nalice gets eds a a", "a is named twice"},
		{"gets nothing and something", "up: delta", good + "alice subscribes eds a\nalice gets eds nothing a=1", "nothing, and yet a=1"},
		{"gets what", "up: delta", "alice subscribes eds a\nalice gets eds", "what does it get?"},
		{"removed what", "up: delta", "alice subscribes eds a\nalice gets eds removed", "what is removed?"},
		{"and what", "up: delta", good + "alice subscribes eds a\nalice gets eds a=1 and acks", "after `and` comes waits or nacks"},
		{"too much", "up: delta", good + "alice subscribes eds a\nalice gets eds a=1 and waits now", "now was not expected here"},
		{"bad code", "up: delta", "alice subscribes eds a\nalice is closed with BAD", "BAD is no gRPC status code"},
		{"bad error", "up: delta", "alice subscribes eds a\nalice gets eds errors a", "a is not NAME=CODE"},
		{"bad duration", "up: delta", "quiet long", `"long" is no duration like 300ms`},
		{"bad node", "up: delta", "alice is tall", "tall is not FIELD=VALUE"},
		{"unknown field of a node", "up: delta", "alice is size=9", `a node has no field "size" here`},
		{"bad variant", "up: delta", "alice speaks rest", `"rest" is not one of`},
		{"unknown server", "up: delta", "alice connects to mars", `"mars" is not among the servers`},
		{"drops what", "up: delta", "origin drops eds", "drops what?"},
		{"sees what", "up: delta", "origin sees eds", "it sees names, or nothing"},
		{"has what", "up: delta", "origin has eds removed", "which resources of eds?"},
		{"says what", "origin: scripted", "origin says eds", "it says resources, removed, errors, or nothing"},
		{"no locators", "up: delta", "alice sends eds locators", "which locators?"},
		{"bad locator", "up: delta", "alice sends eds locators a{x}", "x is not NAME=VERSION"},
		{"bad size", "up: delta", "alice takes frames up to many", `parsing "many"`},
		{"mixed fields", "up: delta", "alice sends eds names a subscribe b", "subscribe is a field of delta, others are not"},
		{"remembers what", "up: delta", "alice subscribes eds a\nalice remembers eds as x", "it remembers the version of, or the nonce of"},
		{"what does the relay do", "up: delta", "relay", "what does relay do?"},
		{"a line that ends early", "up: delta", "alice subscribes", "the line ends where a type was expected"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("B1_try.txtar", []byte(head(test.headers, test.lines+"\n")))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
	t.Run("no words", func(t *testing.T) {
		if _, err := Parse("B1_try.txtar", []byte("up: delta\n-- conversation --\norigin has eds a=1\n")); err == nil || !strings.Contains(err.Error(), "in plain words") {
			t.Errorf("got %v", err)
		}
	})
}

// TestScripts: files are found, named, ordered and told apart.
func TestScripts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Scripts(dir); err == nil {
		t.Error("no scripts, and no error")
	}
	write("B/B10_two.txtar", head("rules: B9 B10\ndown: mixed\nup: delta sotw", "origin has eds a=1\n"))
	write("B/B9_one-two.txtar", head("down: sotw-ads delta-type\nup: sotw", "origin has eds a=1\n"))
	scripts, err := Scripts(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(scripts) != 2 || scripts[0].Name != "one-two" || !slices.Equal(scripts[1].Rules, []string{"B10", "B9"}) {
		t.Fatalf("got %+v", scripts)
	}
	if got := scripts[0].Combinations; !slices.Equal(got, []string{"sotw-ads-over-sotw", "delta-type-over-sotw"}) {
		t.Errorf("combinations %q", got)
	}
	if got := scripts[1].Combinations; !slices.Equal(got, []string{"mixed-over-delta", "mixed-over-sotw"}) {
		t.Errorf("combinations %q", got)
	}
	if scripts[0].Text() != "A try." || !strings.HasSuffix(scripts[0].File, "B/B9_one-two.txtar") {
		t.Errorf("text %q of %s", scripts[0].Text(), scripts[0].File)
	}
	write("B/nine.txtar", head("up: sotw", "alice wonders\n"))
	write("B/B2_x.txtar", head("up: sotw", "alice wonders\nbob wonders\n"))
	_, err = Scripts(dir)
	if err == nil || strings.Count(err.Error(), "wonders") != 3 || !strings.Contains(err.Error(), "the file is to be named <RULE>_<short-name>.txtar") {
		t.Errorf("got %v, want all mistakes of all files", err)
	}
}

// TestDocumented: the package comment explains every verb, header, condition and
// attribute.
func TestDocumented(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for v := range clientVerbs {
		words = append(words, v)
	}
	for v := range originVerbs {
		words = append(words, v)
	}
	for c := range conditions {
		words = append(words, "["+c+"]")
	}
	for f := range nodeFields {
		words = append(words, f+"=")
	}
	words = append(words, downs...)
	words = append(words, slices.Concat(expectationKeywords, sayKeywords, sendKeywords, askKeywords)...)
	words = append(words, "rules:", "down:", "up:", "origin:", "origins:", "servers:", "-- config --", "let", "quiet",
		"version=", "ttl=", "ttl-at-most=", "alias=", "metadata=", "unknown=", "resource-name=", "bodyless", "wrapped", "bare", "do-not-cache",
		"inner=", "service=", "to=", "extra=", "size=", "any=", "static", "garbage", "meta.", "param.")
	for short := range shortTypes {
		words = append(words, short)
	}
	for _, w := range words {
		if w != "hear nothing" && !strings.Contains(string(doc), w) {
			t.Errorf("the package comment does not explain %q", w)
		}
	}
}
