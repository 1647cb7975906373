package cache

import "xdsrelay/relay/resource"

// globs checks that globs with interest are known, and how names are spelled.
func (c *checker) globs() {
	t := c.table
	for name := range t.interests {
		if resource.IsGlob(name) && t.store.Glob(name) == nil {
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
