package cache

import (
	"time"

	"xdsrelay/relay/cache/gate"
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// A rollout policy with the mode observe lets all changes pass, so its key has no gates. The tables note
// what clients saw of the names that the control plane has changed, so that the rollout that would have
// been can be compared with that: see [Group.CutNoted].

// Observer observes the changes of a key. It is not changed after [Group.Observe].
type Observer struct {
	// Types are the URLs of the types that a policy with another mode would hold back.
	Types map[string]bool
	// Changed is called after something of these types has changed, sometimes without need, with a time
	// before any client was sent it. It must not block.
	Changed func(g *Group, at time.Time)
}

// notedChanges are what clients of an observed table saw before the control plane has changed it. The caller
// guards them.
type notedChanges struct {
	before map[string]before // by canonical name
	edits  uint64
}

// before is what clients saw of a name.
type before struct {
	res    *resource.Resource // nil: nothing
	member bool               // of the wildcard set
}

// Observe makes an observer observe the changes of a key from now on. Nil ends that.
func (g *Group) Observe(by *Observer) {
	g.mu.Lock()
	g.observer = by
	g.mu.Unlock()
	for _, t := range g.Tables() {
		t.mu.Lock()
		t.core.observe(by)
		t.mu.Unlock()
	}
}

// changesNoted notifies the observer of a change that was applied at a time.
func (g *Group) changesNoted(at time.Time) {
	g.mu.Lock()
	by := g.observer
	g.mu.Unlock()
	if by != nil {
		by.Changed(g, at)
	}
}

// observe begins to note changes of the table, or ends that.
func (t *core) observe(by *Observer) {
	switch is := by != nil && by.Types[t.Type.URL] && !t.group.private; {
	case !is:
		t.noted = nil
	case t.noted == nil:
		t.noted = &notedChanges{before: make(map[string]before)}
	}
}

// noteBefore notes what clients see of a name before an update changes it to to, except for changes that pass
// a gate; see passes.
func (u *updateTxn) noteBefore(name string, e *table.Entry, to table.State) {
	if u.noted == nil {
		return
	}
	var was before
	if e != nil {
		was = before{e.Res, e.Member}
	}
	_, has := u.noted.before[name]
	switch {
	case was.res == nil && to.Res == nil, was.res != nil && to.Res != nil && was.res.SameContent(to.Res):
		return
	case !has && (to.Denied || u.table.passesNoted(u, name, e, to.Res)):
		return
	case !has:
		u.noted.before[name] = was
	}
	u.noted.edits++
}

// passesNoted reports whether a change would pass a gate at once.
func (t *core) passesNoted(u *updateTxn, name string, e *table.Entry, to *resource.Resource) bool {
	if t.globWanted(name) || e != nil && (e.TTLState != nil || e.Denied) {
		return true
	}
	was := (*resource.Resource)(nil)
	if e != nil {
		was = e.Res
	}
	for _, r := range []*resource.Resource{to, was} {
		if r != nil && (r.TTL > 0 || len(r.Aliases) > 0) {
			return true
		}
	}
	w := t.demand.Get(name)
	return was == nil && (u.fresh || w != nil && w.Stream() == u.by)
}

// notedEdits counts the changes that were noted.
func (t *core) notedEdits() uint64 {
	if t.noted == nil {
		return 0
	}
	return t.noted.edits
}

// notedChange returns what clients saw before, if the name has changed since and clients still ask for it.
func (t *core) notedChange(name string) (c gate.Change, changed bool) {
	c.Stable = t.noted.before[name].res
	if e := t.store.Get(name); e != nil {
		c.Sent = e.Res
	}
	asked := c.Sent != nil
	for by := range t.streams {
		asked = asked || t.covered(by, name, nil)
	}
	return c, asked && gate.Digest(c.Sent) != gate.Digest(c.Stable)
}

// CutNoted returns how what clients see differs from what they saw when the observation began, or after the
// last [Group.Settle]; nil if it does not. The result has no version of a control plane.
func (g *Group) CutNoted() *Overlay {
	o := &Overlay{group: g}
	for _, t := range g.Tables() {
		t.mu.Lock()
		if t.core.noted != nil {
			changes := make(map[string]gate.Change)
			for name := range t.core.noted.before {
				if c, changed := t.core.notedChange(name); changed {
					changes[name] = c
				} else {
					delete(t.core.noted.before, name)
				}
			}
			if len(changes) > 0 {
				o.parts = append(o.parts, overlayPart{table: t, changes: changes})
			}
		}
		t.mu.Unlock()
	}
	if len(o.parts) == 0 {
		return nil
	}
	return o
}

// Settle makes an overlay of [Group.CutNoted] what later changes are compared with.
func (g *Group) Settle(o *Overlay) {
	for _, p := range o.parts {
		p.table.mu.Lock()
		if n := p.table.core.noted; n != nil {
			for name, c := range p.changes {
				n.before[name] = before{c.Sent, n.before[name].member || c.Sent != nil}
			}
		}
		p.table.mu.Unlock()
	}
}

// Concerns reports whether the subscription of a client sees something that an overlay of [Group.CutNoted]
// has changed, or has seen it before.
func (o *Overlay) Concerns(t *Table, w *Watcher) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := w.sub
	if s == nil || t.core.noted == nil {
		return false
	}
	for _, p := range o.parts {
		if p.table != t {
			continue
		}
		for name, c := range p.changes {
			e := t.core.store.Get(name)
			if e != nil && s.seesNow(e) {
				return true
			}
			if c.Stable == nil {
				continue
			}
			gen := t.core.store.Gen()
			if s.seesNow(table.Replaced(name, c.Stable, nil, gen, t.core.noted.before[name].member)) {
				return true
			}
		}
	}
	return false
}

// NotedTables returns the tables of the types that are observed.
func (g *Group) NotedTables() (all []*Table) {
	for _, t := range g.Tables() {
		t.mu.RLock()
		is := t.core.noted != nil
		t.mu.RUnlock()
		if is {
			all = append(all, t)
		}
	}
	return all
}
