package cache

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

func (m *machine) replace(t *rapid.T) {
	c := m.pick(t)
	names, wild := m.names().Draw(t, "names"), rapid.Bool().Draw(t, "wildcard")
	next := sub{wild: wild, names: make(map[string]bool)}
	for _, n := range resource.CanonicalNames(names) {
		next.names[n] = true
	}
	starts := c.w.sub == nil
	ed, ok := m.table.Adopt(&c.w, wild, resource.ListNames(names...))
	switch {
	case !ok:
		ed = m.table.Replace(&c.w, wild, names)
	case starts: // the names are not needed
		ed.Added = slices.Collect(maps.Keys(next.names))
	}
	m.edited(t, c, next, nil, ed)
}

func (m *machine) edit(t *rapid.T) {
	c := m.pick(t)
	e := Edit{
		Add: m.names().Draw(t, "add"), Remove: m.names().Draw(t, "remove"),
		AddWildcard: rapid.Bool().Draw(t, "join"), RemoveWildcard: rapid.Bool().Draw(t, "leave"),
	}
	next := sub{wild: (c.sub.wild || e.AddWildcard) && !e.RemoveWildcard, names: make(map[string]bool)} // B23
	maps.Copy(next.names, c.sub.names)
	for _, n := range resource.CanonicalNames(e.Add) {
		next.names[n] = true
	}
	removed := resource.CanonicalNames(e.Remove)
	for _, n := range removed {
		delete(next.names, n)
	}
	again := KeysOf(e.Add).Without(removed).list()
	m.edited(t, c, next, again, m.table.Edit(&c.w, e))
}

// edited does what a stream does after an edit, and checks the result of that.
func (m *machine) edited(t *rapid.T, c *reader, next sub, again []string, ed Edited) {
	var added, removed []string
	for n := range next.names {
		if !c.sub.names[n] {
			added = append(added, n)
		}
	}
	for n := range c.sub.names {
		if !next.names[n] {
			removed = append(removed, n)
		}
	}
	equal(t, "added", slices.Sorted(slices.Values(ed.Added)), slices.Sorted(slices.Values(added)))
	equal(t, "removed", slices.Sorted(slices.Values(ed.Removed)), slices.Sorted(slices.Values(removed)))
	equal(t, "wildcard", ed.Wildcard, next.wild && !c.sub.wild)
	equal(t, "wildcard left", ed.Left, c.sub.wild && !next.wild)
	left := len(removed) > 0 || c.sub.wild && !next.wild

	c.sub = next
	fresh := slices.DeleteFunc(sortedKeys(next.names), func(n string) bool { return m.model.wants[n] != nil })
	m.model.want(&next)
	m.reap(fresh...)
	if m.kind == (kind{}) { // an alias may still cover a name that is left
		c.force = c.force.Without(removed)
	}
	if ed.Wildcard {
		c.owed = c.sotw
		c.at.Noted = 0
		if c.at.Gen = 0; m.kind == (kind{}) && rapid.Bool().Draw(t, "start") {
			c.at = Start
		}
	}
	if c.at.Gen > 0 || c.at.Noted > 0 {
		c.force = c.force.With(NewNames(added)).With(NewNames(again)) // B18, B35
	}
	if next.wild && !c.sotw {
		c.force = c.force.With(NewNames(removed)) // B36
	}
	maps.DeleteFunc(c.held, func(n string, r *resource.Resource) bool {
		// A client that leaves a name or the wildcard no longer has what it knew only by that.
		return !next.names[n] && (!m.model.covers(&next, r) || left && m.model.view(&next)[n] == nil && !next.wild)
	})
	for _, n := range added {
		if c.held[n] != nil && m.unknownTo(&next, n) {
			c.ghosts[n] = true // as a member of the wildcard set, which it left before it was sent the removal (K13)
		}
	}
	maps.DeleteFunc(c.ghosts, func(n string, _ bool) bool { return c.held[n] == nil })
}

// reconnect: B37: a delta client returns with what it has, or with something else; others start
// over.
func (m *machine) reconnect(t *rapid.T) {
	c := m.pick(t)
	m.table.Leave(&c.w)
	c.w, c.at, c.force, c.claims, c.kept = Watcher{}, Start, nil, nil, false
	c.spared = make(map[string]bool)
	c.ghosts, c.errs = make(map[string]bool), make(map[string]string)
	if c.sub.names != nil {
		m.table.Replace(&c.w, c.sub.wild, sortedKeys(c.sub.names))
		m.model.want(&c.sub)
		m.reap()
	}
	if c.sotw || rapid.Bool().Draw(t, "forgot") {
		c.forget()
		return
	}
	if c.sub.names == nil {
		return
	}
	for _, n := range m.names().Draw(t, "other") {
		r := versioned(n, "old", "old")
		if !resource.IsGlob(r.Key) && (m.model.covers(&c.sub, r) || rapid.Bool().Draw(t, "uncovered")) {
			c.held[r.Key] = r
		}
	}
	// A claim is about a resource's own name: names that are also aliases of others are left out.
	maps.DeleteFunc(c.held, func(n string, _ *resource.Resource) bool { return m.aliases && (n == "a" || n == "b") })
	var claims []resource.Held
	for n, r := range c.held {
		claims = append(claims, resource.Held{Name: r.Name, Version: r.Version})
		if r2 := m.model.shown[n]; r2 != nil && r2.Version == r.Version {
			c.held[n] = r2 // a client cannot distinguish them
		}
	}
	c.force, c.at, c.claims = m.table.Reconcile(&c.w, nil, claims, false)
	for _, rest := range c.claims {
		if !m.unknownTo(&c.sub, rest.Name) {
			t.Fatalf("%q is known, but its claim was not judged", rest.Name)
		}
		c.ghosts[rest.Name] = true
	}
	for n, r := range c.held {
		if m.model.shown[n] != r || !m.model.covers(&c.sub, r) {
			continue
		}
		if again := slices.Contains(c.force.list(), n); again != (m.model.refused[n] && m.model.errors[n] == "") {
			t.Fatalf("%q is current, and will be sent again: %t; an error of it was told: %t", n, again, m.model.refused[n])
		}
	}
}
