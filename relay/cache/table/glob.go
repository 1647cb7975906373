package table

import (
	"iter"
	"maps"

	"xdsrelay/relay/cache/list"
	"xdsrelay/relay/resource"
)

// A glob collection is a structured name that stands for all resources one level below it (G6). It
// works like an alias that each of them has: subscribers of the glob see them. Stores without
// structured names are not affected.

// structure is the extra state of an entry with a structured name.
type structure struct {
	glob *Glob // that covers the name; nil for globs themselves
	// spelled is how the control plane spells the resource, "" if it never did.
	spelled string
	place   list.Link[Entry]
}

// Glob is all that is known below one level.
type Glob struct {
	Name    string
	members list.List[Entry] // tombstones included
	live    int              // of these, resources
	floor   uint64           // tombstones up to here may be gone
}

// Live is the number of its resources.
func (g *Glob) Live() int { return g.live }

// Len is the number of its members, including tombstones.
func (g *Glob) Len() int { return g.members.Len() }

// Floor is a generation: tombstones of members up to it may be forgotten.
func (g *Glob) Floor() uint64 { return g.floor }

// Members iterates over its members, including tombstones, the newest first.
func (g *Glob) Members() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for e := g.members.Newest(); e != nil; e = e.rare.urn.place.Older {
			if !yield(e) {
				return
			}
		}
	}
}

// Glob is the glob that covers e, nil if none does.
func (e *Entry) Glob() *Glob {
	urn := e.has().urn
	if urn == nil {
		return nil
	}
	return urn.glob
}

// Structured reports whether the name of e has structure (G1).
func (e *Entry) Structured() bool { return e.has().urn != nil }

// Spelled is how the control plane spells a structured name; "" if it never did, or for another
// name.
func (e *Entry) Spelled() string {
	urn := e.has().urn
	if urn == nil {
		return ""
	}
	return urn.spelled
}

// Spell records how the control plane spells the name of something that it reports as absent,
// unless that is known.
func (s *Store) Spell(name, spelled string) {
	s.guard.Writing()
	if e := s.entries[name]; e != nil && e.Structured() && e.Spelled() == "" {
		e.rare.urn.spelled = spelled
	}
}

// Glob returns the glob with that name. It is nil if there is no interest in it, and no entry that
// it covers.
func (s *Store) Glob(name string) *Glob {
	s.guard.Reading()
	return s.globs[name]
}

// HasGlobs reports whether there is any glob.
func (s *Store) HasGlobs() bool {
	s.guard.Reading()
	return len(s.globs) > 0
}

// Globs iterates over the names of all globs.
func (s *Store) Globs() iter.Seq[string] {
	s.guard.Reading()
	return maps.Keys(s.globs)
}

// EachGlob calls f for the globs among names.
func (s *Store) EachGlob(names map[string]struct{}, f func(*Glob)) {
	s.guard.Reading()
	if len(s.globs) < len(names) {
		for n, g := range s.globs {
			if _, ok := names[n]; ok {
				f(g)
			}
		}
		return
	}
	for n := range names {
		if g := s.globs[n]; g != nil {
			f(g)
		}
	}
}

// AddGlob makes the glob with that name, unless there is one.
func (s *Store) AddGlob(name string) {
	s.guard.Writing()
	s.globFor(name)
}

func (s *Store) globFor(name string) *Glob {
	g := s.globs[name]
	if g == nil {
		g = &Glob{Name: name, members: list.New(memberLink)}
		if s.globs == nil {
			s.globs = make(map[string]*Glob)
		}
		s.globs[name] = g
	}
	return g
}

// indexGlob completes a new entry with a structured name.
func (s *Store) indexGlob(e *Entry) {
	if !resource.IsURN(e.Name) {
		return
	}
	urn := &structure{}
	e.with().urn = urn
	if name := resource.GlobOf(e.Name); name != "" {
		urn.glob = s.globFor(name)
		urn.glob.members.Push(e)
	}
}

// unindexGlob removes e from its glob. e is a tombstone that is being forgotten.
func (s *Store) unindexGlob(e *Entry) {
	g := e.Glob()
	if g == nil {
		return
	}
	g.members.Remove(e)
	s.DropGlob(g.Name)
}

// DropGlob forgets a glob if there is nothing to know about it.
func (s *Store) DropGlob(name string) {
	s.guard.Writing()
	if g := s.globs[name]; g != nil && g.members.Len() == 0 && !s.wanted(name) {
		delete(s.globs, name)
	}
}

// countGlob counts the change of e from old in its glob.
func (s *Store) countGlob(e *Entry, old *resource.Resource) {
	g := e.Glob()
	switch {
	case g == nil || (old == nil) == (e.Res == nil):
	case old == nil:
		g.live++
	default:
		g.live--
	}
}
