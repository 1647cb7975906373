package cache

import (
	"slices"

	"xdsrelay/relay/resource"
)

// A resource may have other names besides its own (B38). The index of aliases finds entries by
// their present and former names.

// goesBy reports whether name is one of e's names.
func (e *entry) goesBy(name string) bool {
	if name == e.name || e.res != nil && slices.Contains(e.res.Aliases, name) {
		return true
	}
	g := e.globOf()
	return g != nil && g.name == name
}

// aliases returns the present and former names of e other than its own.
func (e *entry) aliases() []string {
	if e.res == nil {
		return e.former
	}
	return slices.Concat(e.res.Aliases, e.former)
}

// eachOfLocked calls f for each entry that has name, or had it.
func (t *Table) eachOfLocked(name string, f func(*entry)) {
	own := t.entries[name]
	if own != nil {
		f(own)
	}
	g := t.globs[name]
	for _, e := range t.aliases[name] {
		if e != own && (g == nil || e.globOf() != g) {
			f(e)
		}
	}
	if g == nil {
		return
	}
	for e := g.members.newest; e != nil; {
		next := e.urn.place.next // f may erase e
		f(e)
		e = next
	}
}

// eachNamedLocked calls f once for each entry that has one of the names of s, or had one.
func (t *Table) eachNamedLocked(s *Subscription, f func(*entry)) {
	names := s.names
	if len(t.aliases) == 0 && s.globs == 0 {
		for n := range names {
			if e := t.entries[n]; e != nil {
				f(e)
			}
		}
		return
	}
	seen := make(map[*entry]struct{}, len(names))
	for n := range names {
		t.eachOfLocked(n, func(e *entry) {
			if _, twice := seen[e]; !twice {
				seen[e] = struct{}{}
				f(e)
			}
		})
	}
}

// eachNamed calls f in steps, with the table's mu held for reading, for each entry that has one of
// the names of s, or had one: once unless aliases change meanwhile.
func (s *Subscription) eachNamed(f func(*entry)) {
	t, seen := s.table, make(map[*entry]struct{})
	for n := range inSteps(t, t.mu.reading(), &s.names) {
		many := len(t.aliases) > 0 || s.globs > 0
		t.eachOfLocked(n, func(e *entry) {
			if _, twice := seen[e]; twice {
				return
			}
			if many {
				seen[e] = struct{}{}
			}
			f(e)
		})
	}
}

// existsLocked reports whether there is a resource with that name.
func (t *Table) existsLocked(name string) bool {
	if e := t.entries[name]; e != nil && e.res != nil {
		return true
	}
	if g := t.globs[name]; g != nil && g.live > 0 {
		return true
	}
	return slices.ContainsFunc(t.aliases[name], func(e *entry) bool { return e.res != nil && e.goesBy(name) })
}

// knowsLocked reports whether it is known that name exists, or that it does not.
func (t *Table) knowsLocked(name string) bool { return t.entries[name] != nil || t.existsLocked(name) }

// renameLocked moves e in the index from the aliases of old, which it was, to those of res, which
// it becomes. It remembers former aliases with interest, so that their subscribers can be notified.
func (t *Table) renameLocked(e *entry, old, res *resource.Resource) {
	var before, after []string
	if old != nil {
		before = old.Aliases
	}
	if res != nil {
		after = res.Aliases
	}
	if len(before)+len(after)+len(e.former) == 0 {
		return
	}
	t.unindexLocked(e, before)
	t.unindexLocked(e, e.former)
	var former []string
	for _, a := range slices.Concat(e.former, before) {
		if t.interests[a] != nil && !slices.Contains(after, a) && !slices.Contains(former, a) {
			former = append(former, a)
		}
	}
	e.former = former
	t.indexLocked(e, after)
	t.indexLocked(e, former)
}

func (t *Table) indexLocked(e *entry, aliases []string) {
	for _, a := range aliases {
		if !slices.Contains(t.aliases[a], e) {
			t.aliases[a] = append(t.aliases[a], e)
		}
	}
}

func (t *Table) unindexLocked(e *entry, aliases []string) {
	for _, a := range aliases {
		// A copy, because another goroutine may be iterating over the old list.
		kept := slices.DeleteFunc(slices.Clone(t.aliases[a]), func(o *entry) bool { return o == e })
		if len(kept) == 0 {
			delete(t.aliases, a)
		} else {
			t.aliases[a] = kept
		}
	}
}
