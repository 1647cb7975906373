package conformance

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rule is a rule of the catalog.
type rule struct {
	id, sentence string
}

// section is a chapter of the catalog.
type section struct {
	letter, title string
	rules         []rule
}

// catalog reads rules.txt.
func catalog(t *testing.T) []section {
	t.Helper()
	sections, err := parseCatalog(readFile(t, "rules.txt"))
	if err != nil {
		t.Fatalf("rules.txt: %v", err)
	}
	return sections
}

var (
	sectionLine = regexp.MustCompile(`^== ([A-Z]) (\S.*)$`)
	ruleLine    = regexp.MustCompile(`^([A-Z][1-9][0-9]?) (\S.*)$`)
)

// parseCatalog reads the form that rules.txt explains.
func parseCatalog(text string) (sections []section, err error) {
	for n, line := range strings.Split(text, "\n") {
		wrong := func(format string, args ...any) error {
			return fmt.Errorf("line %d: %s: %q", n+1, fmt.Sprintf(format, args...), line)
		}
		last := func() *section { return &sections[len(sections)-1] }
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if m := sectionLine.FindStringSubmatch(line); m != nil {
			if want := string(rune('A' + len(sections))); m[1] != want {
				return nil, wrong("expected section %s", want)
			}
			sections = append(sections, section{letter: m[1], title: m[2]})
			continue
		}
		if len(sections) == 0 {
			return nil, wrong("expected the line of a section")
		}
		if more, ok := strings.CutPrefix(line, " "); ok {
			if len(last().rules) == 0 {
				return nil, wrong("expected a rule")
			}
			r := &last().rules[len(last().rules)-1]
			r.sentence += " " + strings.TrimSpace(more)
			continue
		}
		m := ruleLine.FindStringSubmatch(line)
		want := fmt.Sprint(last().letter, len(last().rules)+1)
		if len(m) != 3 || m[1] != want {
			return nil, wrong("expected rule %s", want)
		}
		last().rules = append(last().rules, rule{id: want, sentence: m[2]})
	}
	return sections, nil
}

// entry is what notes.txt and differences.txt are made of.
type entry struct {
	words []string // rule ids, and what else stands before the colon
	title string
	text  string
}

// entries reads such a file.
func entries(t *testing.T, name string) []entry {
	t.Helper()
	list, err := parseEntries(readFile(t, name))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return list
}

func parseEntries(text string) (list []entry, err error) {
	for n, line := range strings.Split(text, "\n") {
		switch head, ok := strings.CutPrefix(line, "== "); {
		case strings.HasPrefix(line, "#") && len(list) == 0:
		case ok:
			words, title, ok := strings.Cut(head, ": ")
			if !ok || words == "" || title == "" {
				return nil, fmt.Errorf("line %d: expected %q: %q", n+1, "== RULES: TITLE", line)
			}
			list = append(list, entry{words: strings.Fields(words), title: title})
		case len(list) == 0 && line != "":
			return nil, fmt.Errorf("line %d: expected %q: %q", n+1, "== RULES: TITLE", line)
		case len(list) > 0:
			list[len(list)-1].text += line + "\n"
		}
	}
	for i := range list {
		if list[i].text = strings.TrimSpace(list[i].text); list[i].text == "" {
			return nil, fmt.Errorf("%q: expected a text", list[i].title)
		}
	}
	return list, nil
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ids lists the rules of a catalog in their order.
func ids(sections []section) (all []string) {
	for _, s := range sections {
		for _, r := range s.rules {
			all = append(all, r.id)
		}
	}
	return all
}

// TestCatalog holds the size and the form of the catalog: one sentence a rule.
func TestCatalog(t *testing.T) {
	sections := catalog(t)
	want := map[string]int{"A": 7, "B": 42, "C": 17, "D": 15, "E": 8, "F": 8, "G": 9, "H": 6, "I": 4, "J": 4, "K": 20}
	seen := map[string]string{}
	for _, s := range sections {
		if len(s.rules) != want[s.letter] {
			t.Errorf("section %s has %d rules, expected %d", s.letter, len(s.rules), want[s.letter])
		}
		for _, r := range s.rules {
			if !strings.HasSuffix(r.sentence, ".") || strings.Contains(r.sentence, ". ") || strings.ContainsAny(r.sentence, "|\n") {
				t.Errorf("%s is not one sentence that fits a table: %q", r.id, r.sentence)
			}
			if other := seen[r.sentence]; other != "" {
				t.Errorf("%s says what %s says", r.id, other)
			}
			seen[r.sentence] = r.id
		}
	}
	if len(sections) != len(want) {
		t.Errorf("%d sections, expected %d", len(sections), len(want))
	}
}

// TestParse holds that mistakes in the files are told.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"A1 x.":                         "line 1: expected the line of a section",
		"== B Second":                   "line 1: expected section A",
		"== A First\nA2 x.":             "line 2: expected rule A1",
		"== A First\nA1 x.\nA3 x.":      "line 3: expected rule A2",
		"== A First\nA1 x.\nB1 x.":      "line 3: expected rule A2",
		"== A First\n  x.":              "line 2: expected a rule",
		"== A First\nno rule":           "line 2: expected rule A1",
		"# c\n== A First\nA1 x\n  y.\n": "",
	} {
		_, err := parseCatalog(text)
		if said := fmt.Sprint(err); want == "" && err != nil || !strings.HasPrefix(said, want) && want != "" {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"text":                    "line 1: expected",
		"== A1 title":             "line 1: expected",
		"== A1: title":            `"title": expected a text`,
		"# c\n\n== A1 B2: t\nx\n": "",
	} {
		list, err := parseEntries(text)
		if said := fmt.Sprint(err); want == "" && err != nil || !strings.HasPrefix(said, want) && want != "" {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
		if want == "" && (len(list) != 1 || !slices.Equal(list[0].words, []string{"A1", "B2"}) || list[0].text != "x") {
			t.Errorf("%q means %+v", text, list)
		}
	}
}
