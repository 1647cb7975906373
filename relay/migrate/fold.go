package migrate

import (
	"slices"
	"strings"
)

// truth is what is left of a match for requests of one type: a constant, or a CEL
// expression over the Node.
type truth struct {
	known bool
	value bool
	cel   string
	loose bool // needs parentheses beside &&
}

var (
	yes = truth{known: true, value: true}
	no  = truth{known: true}
)

// under decides a match for the requests of a type; "" is one that no rule names.
func (m match) under(url string) truth {
	switch m.op {
	case always:
		return yes
	case isType:
		return truth{known: true, value: slices.Contains(m.types, url)}
	case isNode:
		return truth{cel: m.cel}
	case not:
		t := m.of[0].under(url)
		if t.known {
			return truth{known: true, value: !t.value}
		}
		return truth{cel: "!(" + t.cel + ")"}
	case allOf:
		return join(m.of, url, no, " && ")
	case anyOf:
		return join(m.of, url, yes, " || ")
	}
	return no
}

// join decides several matches, of which one with the value of end decides all.
func join(of []match, url string, end truth, by string) truth {
	var left []truth
	for _, m := range of {
		t := m.under(url)
		if t.known && t.value == end.value {
			return end
		}
		if !t.known {
			left = append(left, t)
		}
	}
	switch len(left) {
	case 0:
		return truth{known: true, value: !end.value}
	case 1:
		return left[0]
	}
	loose := by == " || "
	terms := make([]string, len(left))
	for i, t := range left {
		if terms[i] = t.cel; t.loose && !loose {
			terms[i] = "(" + t.cel + ")"
		}
	}
	return truth{cel: strings.Join(terms, by), loose: loose}
}

// piece is what a rule adds to a key where its condition holds.
type piece struct {
	when  string // CEL; empty: always
	loose bool
	parts []part
}

// left is what remains of the rules for the requests of one type.
func (f ruleFile) left(url string) (pieces []piece) {
	for _, rules := range f.fragments {
		for _, r := range rules {
			if t := r.match.under(url); !t.known || t.value {
				pieces = append(pieces, piece{t.cel, t.loose, r.result})
			}
		}
	}
	return pieces
}

// grouping is what a key is made of, over all types.
type grouping struct {
	text   []part    // what every client's key holds, without constants
	chosen [][]piece // for each kind of request whose key some rules add to or not, all of it
	word   string    // what the key begins with where every client's holds constants only
	nobody bool      // no request has a key
	match  []string  // conditions, one of which a client fulfils that has a key at all; none: every client has
}

// group looks at the rules for each type, and for those that no rule names.
func (f ruleFile) group(types []string) grouping {
	var g grouping
	seen := make(map[string]bool)
	everyone := false
	for _, url := range append(slices.Clone(types), "") {
		pieces := f.left(url)
		if len(pieces) == 0 {
			continue
		}
		conditional := false
		for _, p := range pieces {
			if conditional = conditional || p.when != ""; p.when == "" {
				everyone = true
			} else if !slices.Contains(g.match, p.when) {
				g.match = append(g.match, p.when)
			}
		}
		id := identify(pieces)
		switch {
		case seen[id]:
		case conditional:
			from, to := ends(pieces)
			g.always(pieces[:from])
			g.always(pieces[to:])
			g.chosen = append(g.chosen, pieces[from:to])
		default:
			g.always(pieces)
		}
		seen[id] = true
	}
	g.nobody = !everyone && len(g.match) == 0
	if everyone {
		g.match = nil
	}
	return g
}

// ends cuts off what is in every key before the first and behind the last piece that
// is only in some: two keys are equal if these ends are and what is between them.
func ends(pieces []piece) (from, to int) {
	some := func(p piece) bool { return p.when != "" }
	from, to = slices.IndexFunc(pieces, some), len(pieces)
	for !some(pieces[to-1]) {
		to--
	}
	return from, to
}

// always adds what is in each key of a type: clients that agree in all parts that
// vary agree in the key.
func (g *grouping) always(pieces []piece) {
	var words []string
	for _, p := range pieces {
		for _, part := range p.parts {
			switch {
			case !part.isConst():
				if !slices.ContainsFunc(g.text, sameCEL(part)) {
					g.text = append(g.text, part)
				}
			case part != aName && part.constant != "|":
				words = append(words, part.constant)
			}
		}
	}
	if g.word == "" && len(words) > 0 {
		g.word = strings.Join(words, "_")
	}
}

// identify is equal for what gives equal keys.
func identify(pieces []piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.when + "\x00")
		for _, part := range p.parts {
			b.WriteString(part.cel + "\x01" + part.constant + "\x02")
		}
		b.WriteString("\x03")
	}
	return b.String()
}

// cut reports whether a piece of a field is in the key, or something that is not in the
// key of every client: the key is then shown in the fields' place.
func (g grouping) cut() bool {
	return len(g.chosen) > 0 || slices.ContainsFunc(g.text, func(p part) bool { return p.field == "" })
}

// shown says in which field the control plane is shown the key, and which fields it
// is shown as they are. Field is empty where it is shown all fields of the key.
func (g grouping) shown() (field string, pass []string) {
	whole := func(name string) bool {
		return slices.ContainsFunc(g.text, func(p part) bool { return p.field == name })
	}
	if g.cut() {
		field = "id"
		if g.onlyOf("cluster") && !whole("cluster") {
			field = "cluster"
		}
	}
	for _, p := range g.text {
		if p.field != "" && p.field != field {
			pass = append(pass, p.field)
		}
	}
	return field, pass
}

// onlyOf reports whether the key is made of one field of the Node only.
func (g grouping) onlyOf(field string) bool {
	other := func(p part) bool { return !p.isConst() && p.of != field }
	if slices.ContainsFunc(g.text, other) {
		return false
	}
	for _, pieces := range g.chosen {
		for _, p := range pieces {
			if slices.ContainsFunc(p.parts, other) {
				return false
			}
		}
	}
	return true
}

// key is the CEL expression of the key, a term in each line. Parts are joined as in
// xds-relay, and what belongs to different types by a slash.
func (g grouping) key() string {
	var sets []string
	if len(g.text) > 0 {
		terms := make([]string, len(g.text))
		for i, p := range g.text {
			terms[i] = p.cel
		}
		sets = append(sets, strings.Join(terms, " + \"_\"\n+ "))
	} else {
		word := g.word
		if word == "" {
			word = "all"
		}
		sets = append(sets, quote(word)) // a key is never empty
	}
	for _, pieces := range g.chosen {
		terms := make([]string, len(pieces))
		for i, p := range pieces {
			text := sum(append(slices.Clone(p.parts), part{constant: "_"}))
			if terms[i] = text; p.when != "" {
				terms[i] = "(" + p.when + " ? " + text + ` : "")`
			}
		}
		sets = append(sets, strings.Join(terms, "\n+ "))
	}
	return strings.Join(sets, " + \"/\"\n+ ")
}

// sum puts parts together, constants that follow one another as one.
func sum(parts []part) string {
	var terms []string
	text := ""
	flush := func() {
		if text != "" {
			terms = append(terms, quote(text))
		}
		text = ""
	}
	for _, p := range parts {
		if p.isConst() {
			text += p.constant
			continue
		}
		flush()
		terms = append(terms, p.cel)
	}
	flush()
	if len(terms) > 1 && strings.HasPrefix(terms[0], "node.metadata") && strings.HasPrefix(terms[1], "node.metadata") {
		terms = append([]string{`""`}, terms...) // or CEL would not know that these are texts
	}
	return strings.Join(terms, " + ")
}

func sameCEL(p part) func(part) bool { return func(o part) bool { return o.cel == p.cel } }
