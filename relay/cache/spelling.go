package cache

import (
	"slices"

	"xdsrelay/relay/resource"
)

// Tables know structured names in their canonical form (G1). Each side gets the spelling that it
// knows: the control plane the one that was asked for first, and clients the one of the control
// plane. So the relay is transparent to a side that compares names byte by byte.

// canonicalNames returns the canonical forms of names, and the spellings of those that are not
// canonical.
func canonicalNames(names []string) (canonical []string, spelled map[string]string) {
	canonical = resource.CanonicalNames(names)
	if len(names) == 0 || &canonical[0] == &names[0] {
		return names, nil
	}
	spelled = make(map[string]string)
	for i, c := range canonical {
		if c != names[i] && spelled[c] == "" {
			spelled[c] = names[i]
		}
	}
	return canonical, spelled
}

// KeysOf returns the set of the canonical forms of names.
func KeysOf(names []string) *Names { return NewNames(slices.Clone(resource.CanonicalNames(names))) }

// askedAs is the spelling in which a control plane is asked for a name, if it is.
func (t *core) askedAs(name string) string {
	if w := t.demand.Get(name); w != nil {
		return w.Name(name)
	}
	return name
}

// called is the spelling of a name for clients: that of the control plane if it ever sent
// one, otherwise that in which it was asked for.
func (t *core) called(name string) string {
	if e := t.store.Get(name); e != nil && e.Spelled() != "" {
		return e.Spelled()
	}
	return t.askedAs(name)
}

// calledAll is called for a list, in place.
func (t *core) calledAll(names []string) {
	for i, n := range names {
		if resource.IsURN(n) {
			names[i] = t.called(n)
		}
	}
}
