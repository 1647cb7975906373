package conversation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// command is one line of a conversation, ready to be carried out.
type command struct {
	line int
	text string
	when []condition
	do   func(*run) error
}

// parser turns the text of a script into commands. What is wrong is noted, and
// reading goes on with the next line.
type parser struct {
	script   *Script
	lets     map[string]string
	clients  map[string]bool // those that have been introduced
	problems []string
}

func (p *parser) fail(line int, format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf("%s:%d: ", p.script.File, line)+fmt.Sprintf(format, args...))
}

// condition is a word like [delta] or [!up sotw] before a line.
type condition struct {
	not  bool
	what string
}

// conditions are all that there are, with what they ask of a combination. It is
// never changed.
var conditions = map[string]func(combination) bool{
	"sotw":     func(c combination) bool { return strings.HasPrefix(c.down, "sotw") },
	"delta":    func(c combination) bool { return strings.HasPrefix(c.down, "delta") },
	"ads":      func(c combination) bool { return strings.HasSuffix(c.down, "-ads") },
	"type":     func(c combination) bool { return strings.HasSuffix(c.down, "-type") },
	"up sotw":  func(c combination) bool { return c.up == "sotw" },
	"up delta": func(c combination) bool { return c.up == "delta" },
}

func (c condition) holds(in combination) bool { return conditions[c.what](in) != c.not }

// combination is one way to run a script.
type combination struct{ down, up string }

func (c combination) String() string { return c.down + "-over-" + c.up }

var linePattern = regexp.MustCompile(`^\s*((?:\[[^\]]*\]\s*)*)(.*)$`)

// conversation reads the lines; the first of them is line number first.
func (p *parser) conversation(first int, text string) {
	p.clients = make(map[string]bool)
	for i, line := range strings.Split(text, "\n") {
		c, err := p.command(line)
		if err != nil {
			p.fail(first+i, "%v: %s", err, strings.TrimSpace(line))
			continue
		}
		if c.do != nil {
			c.line, c.text = first+i, strings.TrimSpace(line)
			p.script.commands = append(p.script.commands, c)
		}
	}
}

// command reads one line; one without a word gives a command that does nothing.
func (p *parser) command(line string) (command, error) {
	var c command
	m := linePattern.FindStringSubmatch(line)
	for _, w := range strings.FieldsFunc(m[1], func(r rune) bool { return r == '[' || r == ']' }) {
		w = strings.TrimSpace(w)
		if w == "" {
			continue
		}
		what, not := strings.CutPrefix(w, "!")
		if conditions[what] == nil {
			return c, fmt.Errorf("unknown condition [%s]", w)
		}
		c.when = append(c.when, condition{not: not, what: what})
	}
	words, err := lex(m[2], p.lets)
	if err != nil || len(words) == 0 {
		return c, err
	}
	c.do, err = p.sentence(words)
	return c, err
}

// sentence reads "ACTOR [and ACTOR]… VERB …", or a line without an actor.
func (p *parser) sentence(words []word) (func(*run) error, error) {
	switch {
	case words[0].is("let"):
		return p.let(words[1:])
	case words[0].is("quiet"):
		return parseQuiet(&args{words[1:]})
	}
	actors := []string{words[0].text}
	rest := words[1:]
	for len(rest) > 1 && rest[0].is("and") {
		actors = append(actors, rest[1].text)
		rest = rest[2:]
	}
	var does []func(*run) error
	for _, a := range actors {
		do, err := p.actor(a, rest)
		if err != nil {
			return nil, err
		}
		does = append(does, do)
	}
	return func(r *run) error {
		for _, do := range does {
			if err := do(r); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func (p *parser) let(words []word) (func(*run) error, error) {
	a := &args{words}
	name, err := a.text("a name")
	if err != nil {
		return nil, err
	}
	value, err := a.text("a value")
	if err != nil {
		return nil, err
	}
	if _, ok := p.lets[name]; ok {
		return nil, fmt.Errorf("%s is set twice", name)
	}
	p.lets[name] = value
	return func(*run) error { return nil }, a.done()
}

// actor reads what one actor does.
func (p *parser) actor(name string, rest []word) (func(*run) error, error) {
	if i := slices.IndexFunc(p.script.origins, func(o originDecl) bool { return o.name == name }); i >= 0 {
		return p.originSentence(p.script.origins[i], rest)
	}
	if slices.Contains(p.script.servers, name) {
		return serverSentence(name, rest)
	}
	return p.clientSentence(name, rest)
}

// verbOf finds the longest verb that the words begin with.
func verbOf[V any](verbs map[string]V, words []word) (verb string, rest []word) {
	for n := min(4, len(words)); n > 0; n-- {
		texts := make([]string, n)
		for i, w := range words[:n] {
			texts[i] = w.String()
		}
		if v := strings.Join(texts, " "); hasKey(verbs, v) {
			return v, words[n:]
		}
	}
	return "", words
}

func hasKey[V any](m map[string]V, key string) bool {
	_, ok := m[key]
	return ok
}
