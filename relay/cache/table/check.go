package table

import (
	"fmt"
	"slices"

	"xdsrelay/relay/resource"
)

// Check recomputes from scratch what the store maintains incrementally. It returns a sentence for
// each difference, and nothing if all is well. The cost is proportional to the whole content.
func (s *Store) Check() []string {
	s.guard.Reading()
	c := checker{store: s, sums: make([]Sum, len(s.sums))}
	c.entries()
	c.globs()
	c.lists()
	c.heartbeats()
	if c.bytes != s.bytes {
		c.complain("%d bytes, but %d are counted", c.bytes, s.bytes)
	}
	return c.wrong
}

// checker collects what is wrong with a store.
type checker struct {
	store *Store
	sums  []Sum
	bytes int64
	wrong []string
}

func (c *checker) complain(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// entries checks the sums over all entries, and the index of aliases.
func (c *checker) entries() {
	s := c.store
	var live, dead, members, aliased int
	var digest resource.Digest
	for name, e := range s.entries {
		c.bytes += entrySize(name)
		if e.Gen > s.gen || e.Name != name {
			c.complain("%q (%q) changed at generation %d, the table's newest is %d", name, e.Name, e.Gen, s.gen)
		}
		if last := e.Last(); last != nil {
			c.bytes += int64(last.Size())
		}
		also := slices.Clone(e.Former())
		if e.Res == nil {
			dead++
		} else {
			live++
			c.bytes += int64(e.Res.Size()) + e.secondSize()
			also = append(also, e.Res.Aliases...)
		}
		if e.Member {
			members++
			digest = digest.Add(e.Res.Member())
		}
		if max(e.Named, e.Wild) > e.Gen {
			c.complain("%q changed at generation %d, but for some clients later", name, e.Gen)
		}
		c.copies(e)
		slices.Sort(also)
		for _, a := range slices.Compact(also) {
			aliased++
			if !slices.Contains(s.aliases[a], e) {
				c.complain("%q is not found by its alias %q", name, a)
			}
		}
	}
	for _, es := range s.aliases {
		aliased -= len(es)
	}
	if aliased != 0 {
		c.complain("the index of aliases has %d entries too many", -aliased)
	}
	if live != s.live || dead != s.tombstones.Len() || live+dead != s.changes.Len() {
		c.complain("%d resources and %d tombstones, but %d, %d and %d are counted", live, dead, s.live, s.tombstones.Len(), s.changes.Len())
	}
	if digest != s.digest || members != s.members {
		c.complain("the digest does not fit the resources, or %d members are not %d", members, s.members)
	}
	for i, sum := range c.sums {
		if sum != s.sums[i] {
			c.complain("leg %d holds %d resources, but %d are counted, or their digest is off", i, sum.Live, s.sums[i].Live)
		}
	}
	for name, key := range s.uncacheable {
		if s.entries[key] == nil {
			c.complain("%q must not be kept, but there is no %q", name, key)
		}
	}
}

// copies counts the copies of an entry by stream.
func (c *checker) copies(e *Entry) {
	for _, h := range e.Copies() {
		c.sums[h.Stream].count(nil, h.Res)
	}
	if e.Denied {
		c.sums[e.Stream].Denied++
	}
}

// heartbeats checks the notes and the deadlines of TTLs.
func (c *checker) heartbeats() {
	s := c.store
	last, n := s.notes+1, 0
	for e := s.heartbeats.Newest(); e != nil; e = e.OlderHeartbeat() {
		if n++; e.TTLState.Noted >= last || !e.TTLState.listed || s.entries[e.Name] != e || e.TTLState.ChangedAt > e.TTLState.Noted {
			c.complain("%q is out of place in the list of heartbeats", e.Name)
		}
		last = e.TTLState.Noted
	}
	if n != s.heartbeats.Len() {
		c.complain("the list of heartbeats holds %d entries, not %d", n, s.heartbeats.Len())
	}
	ending := 0
	for name, e := range s.entries {
		for _, h := range e.Copies() {
			l := h.TTLState
			if l == nil {
				continue
			}
			c.bytes += ttlStateSize
			ends := !l.Expires.IsZero()
			if ends {
				ending++
			}
			if l.Entry != e || ends != (l.at >= 0) || ends && s.deadlines[l.at] != l || l.listed && l != e.TTLState {
				c.complain("%q expires at %v, but is number %d of those that do", name, l.Expires, l.at)
			}
		}
	}
	if ending != len(s.deadlines) {
		c.complain("%d lives end, but %d are counted", ending, len(s.deadlines))
	}
}

// lists checks the order of changes, and that both lists are complete.
func (c *checker) lists() {
	s := c.store
	last, n := s.gen+1, 0
	for e := s.changes.Newest(); e != nil; e = e.Older() {
		if n++; e.Gen >= last || e.First > e.Gen || s.entries[e.Name] != e {
			c.complain("%q is out of place in the list of changes", e.Name)
		}
		last = e.Gen
	}
	if n != s.changes.Len() {
		c.complain("the list of changes holds %d entries, not %d", n, s.changes.Len())
	}
	n = 0
	for e := s.tombstones.Newest(); e != nil; e = e.with().tombstones.Older {
		if n++; e.Res != nil || s.entries[e.Name] != e {
			c.complain("%q is in the list of tombstones", e.Name)
		}
	}
	if n != s.tombstones.Len() {
		c.complain("the list of tombstones holds %d entries, not %d", n, s.tombstones.Len())
	}
}

// globs checks the index of structured names.
func (c *checker) globs() {
	s := c.store
	members := make(map[string]int)
	for name, e := range s.entries {
		glob := resource.GlobOf(name)
		switch {
		case name != resource.Canonical(name):
			c.complain("%q is not canonical", name)
		case resource.IsURN(name) != e.Structured():
			c.complain("%q: that it has structure is not known", name)
		case glob == "" && e.Glob() != nil, glob != "" && (e.Glob() == nil || e.Glob() != s.globs[glob]):
			c.complain("%q is not in the glob %q", name, glob)
		}
		if glob != "" {
			members[glob]++
		}
	}
	for name, g := range s.globs {
		n, live := 0, 0
		for e := range g.Members() {
			if n++; s.entries[e.Name] != e || e.Glob() != g {
				c.complain("%q is a member of the glob %q", e.Name, name)
			}
			if e.Res != nil {
				live++
			}
		}
		if n != g.members.Len() || n != members[name] || live != g.live || g.Name != name {
			c.complain("the glob %q has %d members, %d of them alive, but counts %d and %d", name, n, live, g.members.Len(), g.live)
		}
		if n == 0 && !s.wanted(name) {
			c.complain("the glob %q is empty and not wanted", name)
		}
	}
}
