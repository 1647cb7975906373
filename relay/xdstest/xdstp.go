package xdstest

import (
	"strings"

	"xdsrelay/relay/resource"
)

// URN is the structured name of a resource: xdstp://AUTHORITY/TYPE/ID, with
// parameters of the form "key=value". Nothing is escaped or put in order.
func URN(authority, typeURL, id string, params ...string) string {
	name := "xdstp://" + authority + "/" + strings.TrimPrefix(typeURL, typePrefix) + "/" + id
	if len(params) > 0 {
		name += "?" + strings.Join(params, "&")
	}
	return name
}

// IsGlob reports whether a name stands for all resources one level below it
// (G6).
func IsGlob(name string) bool { return resource.IsGlob(keyOf(name)) }

// keyOf is what both sides go by: the canonical name (G1).
func keyOf(name string) string { return resource.Canonical(name) }

// members are those of names that a glob covers.
func members[V any](glob string, names map[string]V) (out []string) {
	for n := range names {
		if resource.GlobOf(n) == glob {
			out = append(out, n)
		}
	}
	return out
}
