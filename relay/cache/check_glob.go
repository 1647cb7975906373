package cache

import "xdsrelay/relay/resource"

// globs checks the index of structured names, and their spelling.
func (c *checker) globs() {
	t := c.table
	members := make(map[string]int)
	for name, e := range t.entries {
		glob := resource.GlobOf(name)
		switch {
		case name != resource.Canonical(name):
			c.complain("%q is not canonical", name)
		case resource.IsURN(name) != (e.urn != nil):
			c.complain("%q: that it has structure is not known", name)
		case glob == "" && e.globOf() != nil, glob != "" && (e.globOf() == nil || e.globOf() != t.globs[glob]):
			c.complain("%q is not in the glob %q", name, glob)
		}
		if glob != "" {
			members[glob]++
		}
	}
	for name, g := range t.globs {
		n, live := 0, 0
		for e := g.members.newest; e != nil; e = e.urn.place.next {
			if n++; t.entries[e.name] != e || e.globOf() != g {
				c.complain("%q is a member of the glob %q", e.name, name)
			}
			if e.res != nil {
				live++
			}
		}
		if n != g.members.len || n != members[name] || live != g.live || g.name != name {
			c.complain("the glob %q has %d members, %d of them alive, but counts %d and %d", name, n, live, g.members.len, g.live)
		}
		if n == 0 && t.interests[name] == nil {
			c.complain("the glob %q is empty and not wanted", name)
		}
	}
	for name := range t.interests {
		if resource.IsGlob(name) && t.globs[name] == nil {
			c.complain("the glob %q is wanted, but not known", name)
		}
	}
	spelling := func(name, spelled string) {
		if spelled == name || spelled != "" && resource.Canonical(spelled) != name {
			c.complain("%q is asked for as %q", name, spelled)
		}
	}
	for name, w := range t.interests {
		spelling(name, w.spelled)
	}
	for i := range t.streams {
		for name, news := range t.streams[i].dirty {
			spelling(name, news.spelled)
		}
	}
}
