package migrate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"xdsrelay/relay/yamlpos"
)

// maxPutIn is how long a text may be that regex.replace() puts in.
const maxPutIn = 64

// part is a piece of a fragment: a constant text, or what a CEL expression gives.
type part struct {
	constant string
	cel      string // empty for a constant
	field    string // the Node field that the expression is the whole of; empty for a piece of one
	of       string // the Node field that it is taken from
}

func (p part) isConst() bool { return p.cel == "" }

// aName stands where xds-relay puts a resource name: for one request it is the same
// text for all clients.
var aName = part{constant: "*"}

func (d *decoder) result(t *tree) []part {
	name, v := d.one(t, "a result", "and_result", "request_node_fragment", "resource_names_fragment", "string_fragment")
	switch name {
	case "string_fragment":
		return []part{{constant: d.text(v, name)}}
	case "resource_names_fragment":
		if d.fields(v, name, "element", "action") && d.names == nil {
			d.names = &v.at
		}
		return []part{aName}
	case "request_node_fragment":
		return d.nodeResult(v)
	case "and_result":
		if !d.fields(v, name, "result_predicates") {
			return nil
		}
		of := v.get("result_predicates")
		if of == nil || of.kind != yamlpos.List {
			d.fail(v.at, "and_result needs a list of result_predicates, expected at least two")
			return nil
		}
		var parts []part
		for _, item := range d.list(of, name, 2) {
			parts = append(parts, d.result(item)...)
		}
		return parts
	}
	return nil
}

func (d *decoder) nodeResult(t *tree) []part {
	if t.kind == yamlpos.Fields && t.has("field", "action") {
		if !d.fields(t, "request_node_fragment", "field", "action") {
			return nil
		}
		if t.get("action") == nil {
			d.fail(t.at, "request_node_fragment needs an action")
			return nil
		}
		return d.action(t.get("action"), d.oldField(t))
	}
	name, v := d.one(t, "request_node_fragment", "id_action", "cluster_action", "locality_action", "node_metadata_action")
	switch name {
	case "id_action":
		return d.action(v, "id")
	case "cluster_action":
		return d.action(v, "cluster")
	case "locality_action":
		return d.localityAction(v)
	case "node_metadata_action":
		value, _, action := d.metadata(v, name, "action")
		if action == nil {
			return nil
		}
		return d.action(action, strings.TrimPrefix(value, "node."))
	}
	return nil
}

// localityAction joins what it makes of a locality with a bar.
func (d *decoder) localityAction(t *tree) (parts []part) {
	if !d.fields(t, "locality_action", "region_action", "zone_action", "subzone_action") {
		return nil
	}
	for _, f := range []struct{ action, field string }{
		{"region_action", "region"}, {"zone_action", "zone"}, {"subzone_action", "sub_zone"},
	} {
		v := t.get(f.action)
		if v == nil {
			continue
		}
		if len(parts) > 0 {
			parts = append(parts, part{constant: "|"})
		}
		parts = append(parts, d.action(v, "locality."+f.field)...)
	}
	if len(parts) == 0 {
		d.fail(t.at, "locality_action needs at least one of region_action, zone_action and subzone_action")
	}
	return parts
}

// action makes a part out of a Node field.
func (d *decoder) action(t *tree, field string) []part {
	name, v := d.one(t, "an action", "exact", "regex_action")
	value := "node." + field
	switch name {
	case "exact":
		d.yes(v, name)
		return []part{{cel: value, field: field, of: field}}
	case "regex_action":
		if !d.fields(v, name, "pattern", "replace") {
			return nil
		}
		pattern := v.get("pattern")
		if pattern == nil || d.text(pattern, "pattern") == "" {
			d.fail(v.at, "regex_action needs a pattern")
			return nil
		}
		re := d.pattern(pattern)
		if re == nil {
			return nil
		}
		with := ""
		if r := v.get("replace"); r != nil {
			with = d.putIn(r, re)
		}
		return []part{{cel: "regex.replace(" + value + ", " + quote(pattern.text) + ", " + quote(with) + ")", of: field}}
	}
	return nil
}

// putIn writes what a pattern is replaced by, in which xds-relay has $1 and ${name}
// for groups, as CEL has it: \1.
func (d *decoder) putIn(t *tree, re *regexp.Regexp) string {
	var b strings.Builder
	rest := d.text(t, "replace")
	for rest != "" {
		before, after, found := strings.Cut(rest, "$")
		b.WriteString(strings.ReplaceAll(before, `\`, `\\`))
		if !found {
			break
		}
		if strings.HasPrefix(after, "$") {
			b.WriteByte('$')
			rest = after[1:]
			continue
		}
		name, tail, ok := groupName(after)
		if rest = tail; !ok {
			b.WriteByte('$')
			continue
		}
		group := groupNumber(name, re)
		if group > 9 {
			d.fail(t.at, "replace uses group %d, expected at most the ninth", group)
		}
		if group >= 0 && group <= re.NumSubexp() {
			fmt.Fprintf(&b, `\%d`, group)
		}
	}
	if n := utf8.RuneCountInString(b.String()); n > maxPutIn {
		d.fail(t.at, "replace has %d characters, expected at most %d", n, maxPutIn)
	}
	return b.String()
}

// groupName takes the name behind a dollar off a text, with or without braces.
func groupName(s string) (name, rest string, ok bool) {
	body, braced := strings.CutPrefix(s, "{")
	end := strings.IndexFunc(body, func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	if end < 0 {
		end = len(body)
	}
	name, rest = body[:end], body[end:]
	if braced {
		rest, ok = strings.CutPrefix(rest, "}")
		if !ok {
			return "", s, false
		}
	}
	if name == "" {
		return "", s, false
	}
	return name, rest, true
}

// groupNumber is the number of a group, or -1 where a pattern has no such group.
func groupNumber(name string, re *regexp.Regexp) int {
	if n, err := strconv.ParseUint(name, 10, 16); err == nil && (name == "0" || name[0] != '0') {
		return int(n)
	}
	return re.SubexpIndex(name)
}
