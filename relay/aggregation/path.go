package aggregation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// path is a Node field that can be passed upstream: a top-level field name and
// what is selected below it, for instance ["metadata" "team" "name"].
type path []string

// String writes a path as a rule would, without the leading "node.". Different
// paths have different texts: what is not an identifier is quoted.
func (p path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case i == 0:
			b.WriteString(s)
		case isIdent(s):
			b.WriteString("." + s)
		default:
			b.WriteString("[" + strconv.Quote(s) + "]")
		}
	}
	return b.String()
}

func isIdent(s string) bool {
	for i, c := range s {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || '9' < c) {
			return false
		}
	}
	return s != ""
}

// passable turns a field that an expression reads into the paths to pass for it.
// Locality is split into its three strings, so that every path but a metadata one
// is a leaf. A nil result without error means: nothing to pass.
func passable(p path) ([]path, error) {
	switch p[0] {
	case "id", "cluster", "user_agent_name", "user_agent_version":
		return []path{p[:1]}, nil
	case "locality":
		if len(p) > 1 {
			return []path{p[:2]}, nil
		}
		return []path{{"locality", "region"}, {"locality", "zone"}, {"locality", "sub_zone"}}, nil
	case "metadata":
		return []path{p}, nil
	case "user_agent_build_version":
		if len(p) == 1 || p[1] == "version" {
			return []path{{"user_agent_build_version", "version"}}, nil
		}
	case "client_features":
		// K5: features reach the key and the upstream Node by themselves.
		return nil, nil
	}
	return nil, fmt.Errorf("%s cannot be passed upstream; a key can be made of id, cluster, locality, "+
		"metadata, user_agent_name, user_agent_version and user_agent_build_version.version "+
		"(a match may read any field)", p)
}

// normalize sorts paths and drops those that another one covers.
func normalize(paths []path) []path {
	paths = slices.Clone(paths)
	slices.SortFunc(paths, func(a, b path) int { return slices.Compare(a, b) })
	var out []path
	for _, p := range paths {
		// Sorted by segment, a path directly follows the ones below its prefix.
		if n := len(out); n > 0 && len(out[n-1]) <= len(p) && slices.Equal(out[n-1], p[:len(out[n-1])]) {
			continue
		}
		out = append(out, p)
	}
	return out
}

func hasPath(paths []path, top string) bool {
	return slices.ContainsFunc(paths, func(p path) bool { return p[0] == top })
}
