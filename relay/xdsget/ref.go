package xdsget

import (
	"fmt"
	"strings"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdsclient"
)

// Ref names a resource, or with the name "*" all resources of a type.
type Ref struct{ TypeURL, Name string }

// EnvoyRefs is what an Envoy asks for first: all clusters and listeners.
func EnvoyRefs() []Ref {
	return []Ref{{xdsclient.ClusterType, xdsclient.Wildcard}, {xdsclient.ListenerType, xdsclient.Wildcard}}
}

// ParseRef reads what a user asks for: a type by a name like CDS, by its type URL or by the last part
// of that; TYPE/NAME for one resource; or a structured name (xdstp:), which has the type in it.
func ParseRef(text string) (Ref, error) {
	if resource.IsURN(text) {
		u, err := resource.ParseURN(text)
		if err != nil {
			return Ref{}, fmt.Errorf("%q is no xdstp name: %w", text, err)
		}
		return refOf(text, resource.TypePrefix+u.Type, text, true)
	}
	typ, name, named := strings.Cut(text, "/")
	if rest, ok := strings.CutPrefix(text, resource.TypePrefix); ok {
		typ, name, named = strings.Cut(rest, "/")
		typ = resource.TypePrefix + typ
	}
	return refOf(text, ops.TypeURL(typ), name, named)
}

// refOf is the resource that a text names.
func refOf(text, url, name string, named bool) (Ref, error) {
	switch {
	case url == "" || url == resource.TypePrefix:
		return Ref{}, fmt.Errorf("%q names no type, expected a name like CDS, a type URL, TYPE/NAME or an xdstp name", text)
	case xdsclient.V3TypeOf(url) != url:
		return Ref{}, fmt.Errorf("%q is a type of xDS v2, expected one of v3", text)
	case named && name == "":
		return Ref{}, fmt.Errorf("%q has no name after the slash", text)
	case !named:
		name = xdsclient.Wildcard
	}
	return Ref{url, resource.Canonical(name)}, nil
}

// wild reports whether r is all resources of a type.
func (r Ref) wild() bool { return r.Name == xdsclient.Wildcard }

// several reports whether r may be any number of resources.
func (r Ref) several() bool { return r.wild() || resource.IsGlob(r.Name) }
