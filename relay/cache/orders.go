package cache

import (
	"maps"
	"slices"
	"time"

	"xdsrelay/relay/aggregation"
)

// In a tier, the nodes agree on the orders of operators elsewhere, and each follows them. The orders of a
// value are not changed.

// WithFreeze returns the orders with a freeze of a key, or of all keys if that is empty, instead of the one before.
func (o Orders) WithFreeze(key aggregation.Key, f Freeze) Orders {
	if key == "" {
		o.All = &f
		return o
	}
	o.Keys = with(o.Keys, key, &f)
	return o
}

// WithUndone returns the orders with a key that is held at an earlier revision; not any more with nil.
func (o Orders) WithUndone(key aggregation.Key, u *Undone) Orders {
	if u == nil {
		o.Undone = without(o.Undone, key)
	} else {
		o.Undone = with(o.Undone, key, u)
	}
	return o
}

// Without returns the orders without those that hold a key, or without the freeze of all keys if that is empty.
func (o Orders) Without(key aggregation.Key) Orders {
	if key == "" {
		o.All = nil
		return o
	}
	o.Keys, o.Undone = without(o.Keys, key), without(o.Undone, key)
	return o
}

// Holds reports whether an order holds a key by its name.
func (o Orders) Holds(key aggregation.Key) bool { return o.Keys[key] != nil || o.Undone[key] != nil }

// IsZero reports whether there are no orders.
func (o Orders) IsZero() bool { return o.All == nil && len(o.Keys)+len(o.Undone) == 0 }

func with[V any](all map[aggregation.Key]V, key aggregation.Key, v V) map[aggregation.Key]V {
	if all = maps.Clone(all); all == nil {
		all = make(map[aggregation.Key]V)
	}
	all[key] = v
	return all
}

func without[V any](all map[aggregation.Key]V, key aggregation.Key) map[aggregation.Key]V {
	all = maps.Clone(all)
	delete(all, key)
	return all
}

// Follow replaces the orders that are in force. Clients of keys that no order holds any more get what was held
// back, as one update of each type. It returns the number of changes.
func (c *Cache) Follow(o Orders) (changes int) {
	type held struct {
		group  *Group
		freeze *Freeze
		undone *Undone
	}
	var all []held
	c.mu.Lock()
	undone := make(map[aggregation.Key]*Undone, len(o.Undone))
	for key, u := range o.Undone {
		if undone[key] = u; c.freezes.undone[key].isSame(u) {
			undone[key] = c.freezes.undone[key] // it knows more
		}
	}
	c.freezes = freezes{o.All, maps.Clone(o.Keys), undone}
	for key, g := range c.groups {
		all = append(all, held{g, c.freezes.of(key), undone[key]})
	}
	c.mu.Unlock()
	for _, one := range all {
		changes += one.group.follow(one.freeze, one.undone)
	}
	return changes
}

// isSame reports whether two orders are the same one.
func (u *Undone) isSame(as *Undone) bool {
	return u != nil && as != nil && u.Since.Equal(as.Since) && slices.Equal(u.Revisions, as.Revisions)
}

// follow replaces the orders of the group.
func (g *Group) follow(f *Freeze, u *Undone) (changes int) {
	g.mu.Lock()
	held, before := g.heldLocked(), g.undone
	g.freeze, g.undone = f, u
	holds := g.heldLocked()
	if u == nil {
		g.settleBegan = time.Time{}
	}
	g.mu.Unlock()
	switch {
	case holds:
		g.closeGates()
		if u != nil && u != before {
			g.refuse(u)
		}
		if f == nil && u != nil {
			g.judgeUndone() // the freeze that came before it may have ended
		}
	case held:
		changes = g.releaseGates(CauseUnfrozen)
	}
	return changes
}

// refuse makes the gates of all tables refuse what was undone.
func (g *Group) refuse(u *Undone) {
	for _, t := range g.Tables() {
		t.mu.Lock()
		t.core.refuse(u)
		t.mu.Unlock()
	}
}
