package cache

import "xdsrelay/relay/resource"

// Seen is what a subscription sees now. A client without a position, which gets the whole content
// and not its history, compares the version.
type Seen struct {
	// Version is derived from the content alone, even if the control plane gave one (D7): within a
	// table, equal versions prove equal content. It is the same on every node (K11), and never
	// empty.
	Version string
	// Resources is the number of resources.
	Resources int
	// Source is the control_plane.identifier, or those of several.
	Source string
	// Gen is the generation of the table. While it stays the same, so does the rest.
	Gen uint64
}

// Seen returns what w's subscription sees, at a cost that does not depend on the size.
func (t *Table) Seen(w *Watcher) Seen {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.seen(w)
}

// Content is Seen with the resources. The cost is proportional to their number.
func (t *Table) Content(w *Watcher) (Seen, []*resource.Resource) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if w.sub == nil {
		return t.core.seen(w), nil
	}
	var c Changes
	p := picker{table: &t.core, sub: w.sub, out: &c}
	p.pickWhole()
	return t.core.seen(w), c.Resources
}

func (t *core) seen(w *Watcher) Seen {
	s := Seen{Gen: t.store.Gen()}
	var digest resource.Digest
	if w.sub != nil {
		digest, s.Resources = t.sum(w.sub)
		s.Source = t.source(w.sub)
	}
	s.Version = digest.Hex()
	return s
}
