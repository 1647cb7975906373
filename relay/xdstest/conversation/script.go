package conversation

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
)

// Script is one scripted conversation. It is not changed after it was read.
type Script struct {
	// Rules are the ids of the protocol rules that it holds, that of the file's
	// name first.
	Rules []string
	// Name is the rest of the file's name, without its ending.
	Name string
	// File is the path of the script.
	File string
	// Combinations are the ways in which it is to be run, as "down-over-up":
	// "sotw-ads-over-delta".
	Combinations []string

	text     string // what it says in plain words
	origins  []originDecl
	servers  []string
	config   string // with {NAME} where the address of an origin belongs
	commands []command
	contents *contents
}

// originDecl is an origin as the head declares it.
type originDecl struct {
	name     string
	scripted bool
}

// The words of the head. They are never changed.
var (
	downs = []string{"sotw-ads", "delta-ads", "sotw-type", "delta-type", "mixed"}
	ups   = []string{"sotw", "delta"}
)

// Scripts reads all scripts below a directory, DIR/<section>/<RULE>_<name>.txtar,
// in the order of their rules. The error tells all that is wrong with all of
// them, line by line.
func Scripts(dir string) ([]Script, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.txtar"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no scripts below %s", dir)
	}
	var scripts []Script
	var problems []string
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		s, err := Parse(f, data)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		scripts = append(scripts, s)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(problems, "\n"))
	}
	slices.SortStableFunc(scripts, func(a, b Script) int {
		return compareRules(a.Rules[0], b.Rules[0])
	})
	return scripts, nil
}

// compareRules orders A2 before A10 and A10 before B1.
func compareRules(a, b string) int {
	if c := strings.Compare(a[:1], b[:1]); c != 0 {
		return c
	}
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

var (
	fileName = regexp.MustCompile(`^([A-K][0-9]+)_([a-z0-9]+(?:-[a-z0-9]+)*)\.txtar$`)
	ruleID   = regexp.MustCompile(`^[A-K][0-9]+$`)
)

// Parse reads one script. The error tells all that is wrong with it, line by
// line.
func Parse(file string, data []byte) (Script, error) {
	s := Script{File: file, contents: newContents()}
	p := &parser{script: &s, lets: make(map[string]string)}
	if m := fileName.FindStringSubmatch(filepath.Base(file)); m != nil {
		s.Rules, s.Name = []string{m[1]}, m[2]
	} else {
		p.fail(1, "the file is to be named <RULE>_<short-name>.txtar")
	}
	archive := txtar.Parse(data)
	p.head(string(archive.Comment))
	line := 1 + strings.Count(string(archive.Comment), "\n")
	seen := false
	for _, f := range archive.Files {
		line++ // the marker
		switch f.Name {
		case "conversation":
			p.conversation(line, string(f.Data))
			seen = true
		case "config":
			s.config = string(f.Data)
		default:
			p.fail(line-1, "unknown part %q: there are conversation and config", f.Name)
		}
		line += strings.Count(string(f.Data), "\n")
	}
	if !seen || len(s.commands) == 0 {
		p.fail(1, "there is no conversation")
	}
	if len(p.problems) > 0 {
		return Script{}, fmt.Errorf("%s", strings.Join(p.problems, "\n"))
	}
	return s, nil
}

// Text is what the script says about itself in plain words.
func (s Script) Text() string { return s.text }

// head reads the comment and the header lines.
func (p *parser) head(text string) {
	s := p.script
	down, up := downs[:4], ups
	var words []string
	set := make(map[string]bool)
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if comment, ok := strings.CutPrefix(line, "#"); ok {
			words = append(words, strings.TrimSpace(comment))
			continue
		}
		if line == "" {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		values := strings.Fields(value)
		if !ok || len(values) == 0 {
			p.fail(i+1, "the head has lines that begin with # and lines like up: delta")
			continue
		}
		if set[key] {
			p.fail(i+1, "%s: is there twice", key)
		}
		set[key] = true
		switch key {
		case "rules":
			p.rules(i+1, values)
		case "down":
			down = p.known(i+1, key, values, downs)
		case "up":
			up = p.known(i+1, key, values, ups)
		case "origin", "origins":
			p.declareOrigins(i+1, key, value)
		case "servers":
			s.servers = values
		default:
			p.fail(i+1, "unknown header %q: there are rules, down, up, origin, origins and servers", key)
		}
	}
	s.text = strings.TrimSpace(strings.Join(words, "\n"))
	if s.text == "" {
		p.fail(1, "the head is to say in plain words what the rule is and what is shown")
	}
	if len(s.origins) == 0 {
		s.origins = []originDecl{{name: "origin"}}
	}
	if len(s.servers) == 0 {
		s.servers = []string{"relay"}
	}
	for _, d := range down {
		for _, u := range up {
			s.Combinations = append(s.Combinations, d+"-over-"+u)
		}
	}
}

func (p *parser) rules(line int, ids []string) {
	for _, id := range ids {
		switch {
		case !ruleID.MatchString(id):
			p.fail(line, "%q is no rule", id)
		case !slices.Contains(p.script.Rules, id):
			p.script.Rules = append(p.script.Rules, id)
		}
	}
	if len(p.script.Rules) > 0 && !slices.Contains(ids, p.script.Rules[0]) {
		p.fail(line, "rules: does not name %s, which is in the file's name", p.script.Rules[0])
	}
}

func (p *parser) known(line int, key string, values, known []string) []string {
	for _, v := range values {
		if !slices.Contains(known, v) {
			p.fail(line, "%s: %q is not one of %s", key, v, strings.Join(known, ", "))
		}
	}
	return values
}

// declareOrigins reads "origin: scripted" and "origins: east, west scripted".
func (p *parser) declareOrigins(line int, key, value string) {
	if len(p.script.origins) > 0 {
		p.fail(line, "the head has either origin: or origins:")
		return
	}
	if key == "origin" {
		value = "origin " + value
	}
	for one := range strings.SplitSeq(value, ",") {
		f := strings.Fields(one)
		if len(f) == 0 || len(f) > 2 || len(f) == 2 && f[1] != "scripted" && f[1] != "automatic" {
			p.fail(line, "%s: an origin is scripted or automatic", key)
			return
		}
		p.script.origins = append(p.script.origins, originDecl{name: f[0], scripted: len(f) == 2 && f[1] == "scripted"})
	}
}
