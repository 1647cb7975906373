package cache

import (
	"slices"

	"xdsrelay/relay/resource"
)

// Names is an immutable set of names to send whatever the position. Digest distinguishes sets.
type Names struct {
	List   []string
	Digest resource.Digest
}

// NewNames returns the set of names; the slice must not be changed afterwards. An empty set is nil.
func NewNames(names []string) *Names {
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	n := &Names{List: slices.Compact(names)}
	n.Digest = resource.NamesDigest(n.List)
	return n
}

// digest returns the digest of the names; n may be nil.
func (n *Names) digest() (none resource.Digest) {
	if n == nil {
		return none
	}
	return n.Digest
}

// With returns the union of n and o; either may be nil.
func (n *Names) With(o *Names) *Names {
	switch {
	case n == nil || n == o:
		return o
	case o == nil || o.Digest == n.Digest:
		return n
	}
	// o is usually short: merging avoids the sort.
	list, rest := make([]string, 0, len(n.List)+len(o.List)), n.List
	for _, name := range o.List {
		at, dup := slices.BinarySearch(rest, name)
		list = append(list, rest[:at]...)
		if rest = rest[at:]; !dup {
			list = append(list, name)
		}
	}
	list = append(list, rest...)
	return &Names{List: list, Digest: resource.NamesDigest(list)}
}

// Len is the number of names.
func (n *Names) Len() int { return len(n.list()) }

// Size estimates the memory of the set, in bytes.
func (n *Names) Size() (bytes int64) {
	const perName = 16 // the string header
	for _, name := range n.list() {
		bytes += perName + int64(len(name))
	}
	return bytes
}

// Has reports whether a name is in the set, which may be nil.
func (n *Names) Has(name string) bool {
	_, ok := slices.BinarySearch(n.list(), name)
	return ok
}

// Without returns n without names; nil if nothing is left.
func (n *Names) Without(names []string) *Names {
	if n == nil || len(names) == 0 {
		return n
	}
	drop := make(map[string]struct{}, len(names))
	for _, name := range names {
		drop[name] = struct{}{}
	}
	kept := slices.DeleteFunc(slices.Clone(n.List), func(name string) bool {
		_, ok := drop[name]
		return ok
	})
	if len(kept) == len(n.List) {
		return n
	}
	return NewNames(kept)
}

// has reports whether name is one of n.
func (n *Names) has(name string) bool {
	_, ok := slices.BinarySearch(n.list(), name)
	return ok
}

func (n *Names) list() []string {
	if n == nil {
		return nil
	}
	return n.List
}
