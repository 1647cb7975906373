package table

import (
	"slices"

	"xdsrelay/relay/resource"
)

// A resource may have other names besides its own (B38). The index of aliases finds entries by
// their present and former names.

// GoesBy reports whether name is one of e's names.
func (e *Entry) GoesBy(name string) bool {
	if name == e.Name || e.Res != nil && slices.Contains(e.Res.Aliases, name) {
		return true
	}
	g := e.Glob()
	return g != nil && g.Name == name
}

// Aliases returns the present and former names of e other than its own.
func (e *Entry) Aliases() []string {
	if e.Res == nil {
		return e.Former()
	}
	return slices.Concat(e.Res.Aliases, e.Former())
}

// Aliased reports whether any resource has, or had, a name besides its own.
func (s *Store) Aliased() bool {
	s.guard.Reading()
	return len(s.aliases) > 0
}

// EachOf calls f for each entry that has name, or had it. f may forget the entry.
func (s *Store) EachOf(name string, f func(*Entry)) {
	s.guard.Reading()
	own := s.entries[name]
	if own != nil {
		f(own)
	}
	g := s.globs[name]
	for _, e := range s.aliases[name] {
		if e != own && (g == nil || e.Glob() != g) {
			f(e)
		}
	}
	if g == nil {
		return
	}
	for e := g.members.Newest(); e != nil; {
		next := e.rare.urn.place.Older // f may forget e
		f(e)
		e = next
	}
}

// EachNamed calls f once for each entry that has one of names, or had one. globs says that there
// are globs among the names.
func (s *Store) EachNamed(names map[string]struct{}, globs bool, f func(*Entry)) {
	s.guard.Reading()
	if len(s.aliases) == 0 && !globs {
		for n := range names {
			if e := s.entries[n]; e != nil {
				f(e)
			}
		}
		return
	}
	seen := make(map[*Entry]struct{}, len(names))
	for n := range names {
		s.EachOf(n, func(e *Entry) {
			if _, twice := seen[e]; !twice {
				seen[e] = struct{}{}
				f(e)
			}
		})
	}
}

// Exists reports whether there is a resource with that name.
func (s *Store) Exists(name string) bool {
	s.guard.Reading()
	if e := s.entries[name]; e != nil && e.Res != nil {
		return true
	}
	if g := s.globs[name]; g != nil && g.live > 0 {
		return true
	}
	return slices.ContainsFunc(s.aliases[name], func(e *Entry) bool { return e.Res != nil && e.GoesBy(name) })
}

// Knows reports whether it is known that name exists, or that it does not.
func (s *Store) Knows(name string) bool { return s.Get(name) != nil || s.Exists(name) }

// rename moves e in the index from the aliases of old, which it was, to those of res, which it
// becomes. It remembers former aliases with interest, so that their subscribers can be notified.
func (s *Store) rename(e *Entry, old, res *resource.Resource) {
	var before, after []string
	if old != nil {
		before = old.Aliases
	}
	if res != nil {
		after = res.Aliases
	}
	if len(before)+len(after)+len(e.Former()) == 0 {
		return
	}
	s.unindex(e, before)
	s.unindex(e, e.Former())
	var former []string
	for _, a := range slices.Concat(e.Former(), before) {
		if s.wanted(a) && !slices.Contains(after, a) && !slices.Contains(former, a) {
			former = append(former, a)
		}
	}
	if len(former) > 0 || len(e.Former()) > 0 {
		e.with().former = former
	}
	s.index(e, after)
	s.index(e, former)
}

func (s *Store) index(e *Entry, aliases []string) {
	for _, a := range aliases {
		if !slices.Contains(s.aliases[a], e) {
			s.aliases[a] = append(s.aliases[a], e)
		}
	}
}

func (s *Store) unindex(e *Entry, aliases []string) {
	for _, a := range aliases {
		// A copy, because a caller of EachOf may be iterating over the old list.
		kept := slices.DeleteFunc(slices.Clone(s.aliases[a]), func(o *Entry) bool { return o == e })
		if len(kept) == 0 {
			delete(s.aliases, a)
		} else {
			s.aliases[a] = kept
		}
	}
}
