package resource

import (
	"fmt"
	"slices"
	"strings"
)

// Canonical returns the spelling of name that tables, subscriptions and versions use (G1):
// structured names are equal if their parts are, whatever the order of the parameters and the
// escaping. Opaque names, and malformed structured ones, are returned unchanged. A canonical name
// without escapes costs no allocation.
func Canonical(name string) string {
	if !IsURN(name) || isCanonical(name) {
		return name
	}
	u, err := ParseURN(name)
	if err != nil {
		return name
	}
	if s := u.String(); s != name {
		return s
	}
	return name
}

// CanonicalNames returns the canonical forms of names: the same slice if all are canonical.
func CanonicalNames(names []string) []string {
	out := names
	for i, name := range names {
		c := Canonical(name)
		if c == name {
			continue
		}
		if &out[0] == &names[0] {
			out = slices.Clone(names)
		}
		out[i] = c
	}
	return out
}

// isCanonical reports whether a structured name is canonical by a simple check: nothing in it needs
// or has an escape, and its parameters are sorted. A name with escapes or directives may be
// canonical although the result is false.
func isCanonical(name string) bool {
	rest, query, has := strings.Cut(name[len(urnScheme):], "?")
	if has && !sortedParams(query) {
		return false
	}
	authority, path, _ := strings.Cut(rest, "/")
	typ, id, hasID := strings.Cut(path, "/")
	return typ != "" && hasID == (id != "") && inAuthority.holds(authority) && inType.holds(typ) && inID.holds(id)
}

func sortedParams(query string) bool {
	last := ""
	for more, first := true, true; more; first = false {
		var pair string
		pair, query, more = strings.Cut(query, "&")
		key, value, ok := strings.Cut(pair, "=")
		if !ok || !first && key <= last || !inParam.holds(key) || !inParam.holds(value) {
			return false
		}
		last = key
	}
	return true
}

func (c *charset) holds(s string) bool {
	for i := range len(s) {
		if !c[s[i]] {
			return false
		}
	}
	return true
}

// IsGlob reports whether a canonical name is a glob: a structured name that covers all resources
// one level below it (G6). "x/*" is an ordinary name.
func IsGlob(canonical string) bool {
	at, end := lastPart(canonical)
	return at > 0 && canonical[at:end] == "*"
}

// WithoutGlobs returns names without globs, in any spelling: the same slice if there are none.
func WithoutGlobs(names []string) []string {
	isGlob := func(n string) bool { return IsGlob(Canonical(n)) }
	if !slices.ContainsFunc(names, isGlob) {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), isGlob)
}

// GlobOf returns the only glob that covers the resource with a canonical name: one level up, with
// the same parameters (G4, G6). It is "" for opaque names and for globs.
func GlobOf(canonical string) string {
	at, end := lastPart(canonical)
	if at == 0 || canonical[at:end] == "*" {
		return ""
	}
	return canonical[:at] + "*" + canonical[end:]
}

// lastPart finds the last part of the id in a canonical structured name; at is 0 if there is none.
func lastPart(canonical string) (at, end int) {
	if !IsURN(canonical) {
		return 0, 0
	}
	end = strings.IndexAny(canonical, "?#")
	if end < 0 {
		end = len(canonical)
	}
	if strings.IndexByte(canonical[end:], '#') >= 0 {
		return 0, 0 // a name with directives cannot be served (G5)
	}
	_, path, _ := strings.Cut(canonical[len(urnScheme):end], "/")
	if _, id, _ := strings.Cut(path, "/"); id == "" {
		return 0, 0
	}
	return strings.LastIndexByte(canonical[:end], '/') + 1, end
}

// Unservable returns why no server can serve a resource of type t under name, so that it does not
// exist and no request is needed. It is "" for all other names.
func Unservable(t *Type, name string) string {
	if !IsURN(name) {
		return ""
	}
	u, err := ParseURN(name)
	switch {
	case err != nil:
		return "the name is malformed: " + err.Error()
	case u.Fragment != "": // G5
		return "the name has directives after a #"
	case !t.covers(u.Type): // G2
		return fmt.Sprintf("the name is one of type %q", u.Type)
	}
	return ""
}

// collection is the suffix in the type name of a list of resources.
const collection = "Collection"

// covers reports whether names of type t may contain message: its own message name, or that of its
// list collection, which is requested under the type of its members.
func (t *Type) covers(message string) bool {
	own := t.URL[strings.LastIndexByte(t.URL, '/')+1:]
	return message == own || strings.TrimSuffix(message, collection) == own
}
