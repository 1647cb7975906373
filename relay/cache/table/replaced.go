package table

import "xdsrelay/relay/resource"

// Replaced makes an entry that belongs to no store: what some clients see of a name instead of what the
// store has, since generation gen. res is nil if they see that the name is absent; then last is the
// resource that they saw before, nil if none. wild says whether subscribers of the wildcard see the
// change. The entry never changes.
func Replaced(name string, res, last *resource.Resource, gen uint64, wild bool) *Entry {
	e := &Entry{Name: name, Gen: gen, Named: gen, First: gen}
	e.Res = res
	if wild {
		e.Wild, e.Member = gen, res != nil
	}
	if res == nil && last != nil {
		e.with().last = last
	}
	return e
}
