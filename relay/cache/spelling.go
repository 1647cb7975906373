package cache

import (
	"cmp"
	"slices"

	"xdsrelay/relay/resource"
)

// Tables know structured names in their canonical form (G1). Both sides are
// told the spelling that they know: the origin the one that was first asked
// for, and clients the one of the origin. For one that compares names byte by
// byte the relay is then not in the way.

// canonicalNames returns the canonical forms of names, and how those that are
// not canonical are spelled.
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

// name is how the origin is asked for what w wants, whose canonical form is given.
func (w *want) name(canonical string) string { return cmp.Or(w.spelled, canonical) }

// askedAsLocked is how an origin is asked for a name, if it is.
func (t *Table) askedAsLocked(name string) string {
	if w := t.wants[name]; w != nil {
		return w.name(name)
	}
	return name
}

// calledLocked is what clients are told that a name is: as the origin spells it
// where it ever did, and otherwise as it was asked for.
func (t *Table) calledLocked(name string) string {
	if e := t.entries[name]; e != nil && e.urn != nil && e.urn.spelled != "" {
		return e.urn.spelled
	}
	return t.askedAsLocked(name)
}

// spelledByOriginLocked notes how the origin spells the name of something that
// it says does not exist.
func (t *Table) spelledByOriginLocked(name, spelled string) {
	if e := t.entries[name]; e != nil && e.urn != nil && e.urn.spelled == "" {
		e.urn.spelled = spelled
	}
}

// calledAllLocked is calledLocked for a list, in place.
func (t *Table) calledAllLocked(names []string) {
	for i, n := range names {
		if resource.IsURN(n) {
			names[i] = t.calledLocked(n)
		}
	}
}
