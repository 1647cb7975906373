package cache

import "xdsrelay/relay/resource"

// globs checks that globs with interest are known.
func (c *checker) globs() {
	t := c.table
	for name := range t.demand.All() {
		if resource.IsGlob(name) && t.store.Glob(name) == nil {
			c.complain("the glob %q is wanted, but not known", name)
		}
	}
}
