package migrate

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"xdsrelay/relay/yamlpos"
)

// oldFields are the Node fields by the names and numbers that the first versions of
// the rules had for them.
var oldFields = map[string]string{
	"NODE_ID": "id", "0": "id", "NODE_CLUSTER": "cluster", "1": "cluster",
	"NODE_LOCALITY_REGION": "locality.region", "2": "locality.region",
	"NODE_LOCALITY_ZONE": "locality.zone", "3": "locality.zone",
	"NODE_LOCALITY_SUBZONE": "locality.sub_zone", "4": "locality.sub_zone",
}

// oldField reads the field of a match or a result that is written in the old form.
// The number 0 may be left out, as in every .proto.
func (d *decoder) oldField(t *tree) string {
	v := t.get("field")
	if v == nil {
		return "id"
	}
	name, ok := oldFields[v.text]
	if !v.kind.Scalar() || !ok {
		d.fail(v.at, "field is %q, expected NODE_ID, NODE_CLUSTER, NODE_LOCALITY_REGION, NODE_LOCALITY_ZONE or NODE_LOCALITY_SUBZONE", v.text)
	}
	return name
}

// has reports whether t is written in the old form, by one of its fields.
func (t *tree) has(names ...string) bool {
	for _, n := range names {
		if t.get(n) != nil {
			return true
		}
	}
	return false
}

func (d *decoder) nodeMatch(t *tree) match {
	if t.kind == yamlpos.Fields && t.has("field", "exact_match", "regex_match") {
		if !d.fields(t, "request_node_match", "field", "exact_match", "regex_match") {
			return match{}
		}
		return d.stringMatch(t, "node."+d.oldField(t))
	}
	name, v := d.one(t, "request_node_match", "id_match", "cluster_match", "locality_match", "node_metadata_match")
	switch name {
	case "id_match":
		return d.stringMatch(v, "node.id")
	case "cluster_match":
		return d.stringMatch(v, "node.cluster")
	case "locality_match":
		return d.localityMatch(v)
	case "node_metadata_match":
		return d.metadataMatch(v)
	}
	return match{}
}

// stringMatch compares a text, which a CEL expression gives.
func (d *decoder) stringMatch(t *tree, value string) match {
	if t.kind != yamlpos.Fields {
		d.fail(t.at, "what is compared with is %s, expected exact_match or regex_match", t.kind)
		return match{}
	}
	exact, pattern := t.get("exact_match"), t.get("regex_match")
	if (exact == nil) == (pattern == nil) {
		d.fail(t.at, "exactly one of exact_match and regex_match is needed")
		return match{}
	}
	text := exact
	if text == nil {
		text = pattern
	}
	with := d.text(text, "what is compared with")
	if with == "" {
		d.note(text.at, "aggregation", "An empty exact_match or regex_match matches no client in xds-relay, and so it is left out here.")
		return match{op: never}
	}
	if exact != nil {
		return match{op: isNode, cel: value + " == " + quote(with)}
	}
	if d.pattern(text) == nil {
		return match{}
	}
	return match{op: isNode, cel: value + ".matches(" + quote(with) + ")"}
}

func (d *decoder) pattern(t *tree) *regexp.Regexp {
	re, err := regexp.Compile(t.text)
	if err != nil {
		d.fail(t.at, "%v", err)
		return nil
	}
	return re
}

func (d *decoder) localityMatch(t *tree) match {
	m := match{op: allOf}
	if !d.fields(t, "locality_match", "region", "zone", "sub_zone") {
		return m
	}
	for _, f := range t.fields {
		value := "node.locality." + f.name
		if f.value.kind.Scalar() { // as it was for a while
			m.of = append(m.of, match{op: isNode, cel: value + " == " + quote(f.value.text)})
			continue
		}
		m.of = append(m.of, d.stringMatch(f.value, value))
	}
	return m // with nothing to compare it matches
}

func (d *decoder) metadataMatch(t *tree) match {
	value, there, how := d.metadata(t, "node_metadata_match", "match")
	if how == nil {
		return match{}
	}
	name, v := d.one(how, "the match of metadata", "string_match", "bool_match")
	m := match{op: allOf, of: []match{{op: isNode, cel: there}}}
	switch name {
	case "string_match":
		m.of = append(m.of, match{op: isNode, cel: "type(" + value + ") == string"}, d.stringMatch(v, value))
	case "bool_match":
		if !d.fields(v, "bool_match", "value_match") {
			return m
		}
		is := match{op: isNode, cel: value + " == true"}
		if b := v.get("value_match"); b == nil || b.text == "false" {
			is = match{op: not, of: []match{is}} // whatever is not true counts as false
		}
		m.of = append(m.of, is)
	}
	return m
}

// metadata reads what has a path into the metadata and says what is done with the value
// there: how, which is nil where something is wrong.
func (d *decoder) metadata(t *tree, name, what string) (value, there string, how *tree) {
	if !d.fields(t, name, "path", what) {
		return "", "", nil
	}
	value, there, ok := d.metadataPath(t)
	if how = t.get(what); !ok || how == nil {
		d.fail(t.at, "%s needs path and %s", name, what)
		return "", "", nil
	}
	return value, there, how
}

// metadataPath gives the CEL expressions for a value in the metadata and for its
// being there.
func (d *decoder) metadataPath(t *tree) (value, there string, ok bool) {
	value = "node.metadata"
	var guards []string
	list := t.get("path")
	if list == nil || list.kind != yamlpos.List || len(list.items) == 0 {
		return "", "", false
	}
	for i, item := range list.items {
		key := ""
		if d.fields(item, "an entry of a path", "key") && item.get("key") != nil {
			key = d.text(item.get("key"), "a key")
		}
		if key == "" {
			d.fail(item.at, "an entry of a path needs a key")
			return "", "", false
		}
		if i > 0 {
			guards = append(guards, "type("+value+") == map")
		}
		guards = append(guards, quote(key)+" in "+value)
		value += selector(key)
	}
	return value, strings.Join(guards, " && "), true
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reserved are names that CEL does not take after a dot.
var reserved = map[string]bool{"in": true, "as": true, "break": true, "const": true, "continue": true, "else": true, "false": true,
	"for": true, "function": true, "if": true, "import": true, "let": true, "loop": true, "null": true, "package": true,
	"namespace": true, "return": true, "true": true, "var": true, "void": true, "while": true}

func selector(key string) string {
	if plainName.MatchString(key) && !reserved[key] {
		return "." + key
	}
	return "[" + quote(key) + "]"
}

// quote writes a text as CEL does, raw if that is easier to read.
func quote(s string) string {
	escaped := func(r rune) bool { return r == '"' || !unicode.IsPrint(r) }
	if strings.Contains(s, `\`) && !strings.ContainsFunc(s, escaped) {
		return `r"` + s + `"`
	}
	return strconv.Quote(s)
}
