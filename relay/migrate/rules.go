package migrate

import (
	"slices"
	"strings"

	"xdsrelay/relay/yamlpos"
)

// ruleFile is a file of aggregation rules: of each fragment, its rules.
type ruleFile struct {
	at        place
	fragments [][]rule
}

type rule struct {
	at     place
	match  match
	result []part
}

// op is what a match does with what it is made of.
type op int

const (
	always op = iota
	never
	allOf
	anyOf
	not
	isType // the request is of one of the types
	isNode // the Node fulfils a CEL expression
)

type match struct {
	op    op
	of    []match
	types []string
	cel   string
}

// decoder collects the mistakes of a file, and what is to be told of it.
type decoder struct {
	problems []Problem
	notes    []note
	types    []string // that matches name, in order
	names    *place   // where resource names are made a part of keys first
}

// note is something that the new configuration does otherwise, for the section that
// it belongs to.
type note struct {
	at            place
	section, text string
}

func (d *decoder) fail(at place, format string, args ...any) {
	d.problems = append(d.problems, *problem(at, format, args...))
}

func (d *decoder) note(at place, section, text string) {
	d.notes = append(d.notes, note{at, section, text})
}

// fields checks that t has fields, and no other than the known ones.
func (d *decoder) fields(t *tree, what string, known ...string) bool {
	if t.kind != yamlpos.Fields {
		d.fail(t.at, "%s is %s, expected the fields %s", what, t.kind, strings.Join(known, ", "))
		return false
	}
	ok := true
	for _, f := range t.fields {
		if !slices.Contains(known, f.name) {
			d.fail(f.at, "unknown field %s of %s, expected %s", f.name, what, strings.Join(known, ", "))
			ok = false
		}
	}
	return ok
}

// one is the only field of t, of those that exclude each other.
func (d *decoder) one(t *tree, what string, known ...string) (string, *tree) {
	if !d.fields(t, what, known...) {
		return "", nil
	}
	if len(t.fields) != 1 || t.fields[0].value.kind == yamlpos.Null {
		d.fail(t.at, "%s needs exactly one of %s", what, strings.Join(known, ", "))
		return "", nil
	}
	return t.fields[0].name, t.fields[0].value
}

func (d *decoder) list(t *tree, what string, least int) []*tree {
	if t == nil || t.kind != yamlpos.List {
		return nil
	}
	if len(t.items) < least {
		d.fail(t.at, "%s has %d entries, expected at least %d", what, len(t.items), least)
	}
	return t.items
}

func (d *decoder) text(t *tree, what string) string {
	if !t.kind.Scalar() {
		d.fail(t.at, "%s is %s, expected a text", what, t.kind)
		return ""
	}
	return t.text
}

// yes checks a field that can only be true.
func (d *decoder) yes(t *tree, what string) {
	if !t.kind.Scalar() || t.text != "true" {
		d.fail(t.at, "%s can only be true", what)
	}
}

func (d *decoder) ruleFile(t *tree) ruleFile {
	out := ruleFile{at: t.at}
	if !d.fields(t, "the file of rules", "fragments") {
		return out
	}
	fragments := t.get("fragments")
	if fragments == nil || fragments.kind != yamlpos.List || len(fragments.items) == 0 {
		d.fail(t.at, "fragments is not a list of fragments, expected at least one")
		return out
	}
	for _, fragment := range fragments.items {
		if !d.fields(fragment, "a fragment", "rules") {
			continue
		}
		list := fragment.get("rules")
		if list == nil || list.kind != yamlpos.List || len(list.items) == 0 {
			d.fail(fragment.at, "the rules of a fragment are not a list, expected at least one rule")
			continue
		}
		var rules []rule
		for _, t := range list.items {
			if r, ok := d.rule(t); ok {
				rules = append(rules, r)
			}
		}
		out.fragments = append(out.fragments, rules)
	}
	return out
}

func (d *decoder) rule(t *tree) (rule, bool) {
	if !d.fields(t, "a rule", "match", "result") {
		return rule{}, false
	}
	m, r := t.get("match"), t.get("result")
	if m == nil || r == nil {
		d.fail(t.at, "a rule needs both match and result")
		return rule{}, false
	}
	return rule{t.at, d.match(m), d.result(r)}, true
}

func (d *decoder) match(t *tree) match {
	name, v := d.one(t, "a match", "and_match", "or_match", "not_match", "any_match", "request_type_match", "request_node_match")
	switch name {
	case "and_match", "or_match":
		m := match{op: allOf}
		if name == "or_match" {
			m.op = anyOf
		}
		if !d.fields(v, name, "rules") {
			return m
		}
		of := v.get("rules")
		if of == nil || of.kind != yamlpos.List {
			d.fail(v.at, "%s needs a list of rules, expected at least two", name)
			return m
		}
		for _, item := range d.list(of, name, 2) {
			m.of = append(m.of, d.match(item))
		}
		return m
	case "not_match":
		return match{op: not, of: []match{d.match(v)}}
	case "any_match":
		d.yes(v, name)
	case "request_type_match":
		return d.typeMatch(v)
	case "request_node_match":
		return d.nodeMatch(v)
	}
	return match{op: always}
}

func (d *decoder) typeMatch(t *tree) match {
	m := match{op: isType}
	if !d.fields(t, "request_type_match", "types") {
		return m
	}
	list := t.get("types")
	if list == nil || list.kind != yamlpos.List || len(list.items) == 0 {
		d.fail(t.at, "request_type_match needs a list of types, expected at least one type URL")
		return m
	}
	for _, item := range list.items {
		url := d.text(item, "a type")
		m.types = append(m.types, url)
		if !slices.Contains(d.types, url) {
			d.types = append(d.types, url)
		}
	}
	return m
}
