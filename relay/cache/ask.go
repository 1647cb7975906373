package cache

import (
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
)

// Find returns the table of a key for a type, nil if there is none. It makes nothing, and does not
// prevent an eviction of the key.
func (c *Cache) Find(key aggregation.Key, t *resource.Type) *Table {
	c.mu.Lock()
	g := c.groups[key]
	c.mu.Unlock()
	if g == nil {
		return nil
	}
	return g.lookup(t)
}

// Ask returns what a client would see now that asked for names, and with wildcard for the wildcard.
// The result is a Subscription without watchers: it creates no demand, no change finds it, and it
// works with Sights, Lacks and Met. The cost is proportional to the number of names; the wildcard
// usually adds nothing.
func (t *Table) Ask(wildcard bool, names []string) (*Subscription, Seen) {
	names = resource.CanonicalNames(names)
	s := &Subscription{table: t, key: t.seeds.key(wildcard, names), names: make(map[string]struct{}, len(names))}
	for _, n := range names {
		s.names[n] = struct{}{}
	}
	s.countGlobs(&Edited{Added: names})
	t.mu.RLock()
	defer t.mu.RUnlock()
	if _, members := t.core.store.Wildcard(); !wildcard || members < t.core.store.Live() { // else it sees the whole table
		t.core.recount(s)
	}
	digest, live := t.core.sum(s)
	return s, Seen{Version: digest.Hex(), Resources: live, Gen: t.core.store.Gen()}
}

// Met reports whether the update with a number has changed something that s sees. If later updates
// changed the same resources again, those do not count.
func (s *Subscription) Met(number uint64) bool {
	t := s.table
	t.mu.RLock()
	before, gen, ok := t.core.updates.Span(number)
	t.mu.RUnlock()
	if !ok {
		return false
	}
	for _, l := range s.Lacks(before) {
		if l.Gen <= gen {
			return true
		}
	}
	return false
}
