package cache

import (
	"time"

	"xdsrelay/relay/cache/gate"
	"xdsrelay/relay/resource"
)

// While a key is held, its gates hold back what the control plane changes: listeners, scoped routes,
// routes, clusters, extensions and runtimes stay as clients see them. Endpoints and secrets pass, as
// does what must not wait: see passes. The removal guard (K16) judges an answer first: what it
// holds back is not pending. An open key has no gates, at the cost of a nil check.

// gated are the types whose changes are held back.
var gated = map[string]bool{
	resource.ListenerURL: true, resource.ScopedRouteURL: true, resource.RouteURL: true,
	resource.ClusterURL: true, resource.ExtensionURL: true, resource.RuntimeURL: true,
}

// streamGate is the gate of a stream and type.
type streamGate struct {
	gate.Gate
	sent versions // of what the control plane has sent
	// fresh says that nothing is known of the wildcard set: its first members pass.
	fresh bool
	// parks says that the type has endpoint sets, of which only those are held back that would lose
	// all endpoints while the removal of their cluster is pending.
	parks bool
}

// gateSet is the types of a key that have gates.
type gateSet struct {
	held     bool // by an order: those of gated
	governor *Governor
}

// has reports whether a type has a gate, and whether that parks endpoint sets.
func (s gateSet) has(url string) (has, parks bool) {
	switch url {
	case resource.EndpointURL, resource.LbEndpointURL:
		return s.held || s.governor != nil, true
	}
	return s.held && gated[url] || s.governor.governs(url), false
}

// close gives each stream of the table a gate, unless its type is not held back.
func (t *core) close(set gateSet) {
	has, parks := set.has(t.Type.URL)
	if !has || t.group.private {
		return
	}
	for i := range t.streams {
		stream := &t.streams[i]
		if stream.gate == nil {
			stream.gate = &streamGate{sent: stream.versions, fresh: t.fresh(), parks: parks}
		}
	}
}

// rebase records that clients see another resource of a stream, nil for none.
func (l *typeStreamState) rebase(name string, stable *resource.Resource) {
	if l.gate != nil {
		l.gate.Rebase(name, stable)
	}
}

// forgetVersion records that the content of a stream is not what the control plane sent with a
// version.
func (l *typeStreamState) forgetVersion() {
	l.version = ""
	if l.gate != nil {
		l.gate.sent.version = ""
	}
}

// fresh reports whether nothing is known of the wildcard set.
func (t *core) fresh() bool {
	_, members := t.store.Wildcard()
	return members == 0 && !t.demand.WildcardAnswered()
}

// accept makes res what the stream's control plane has sent: clients see it, unless it is held back.
func (u *updateTxn) accept(res *resource.Resource) {
	if u.gate == nil || !u.holdBack(res.Key, res) {
		u.put(res)
	}
}

// holdBack makes what the control plane has sent for a canonical name pending, nil for a removal. It
// reports false if clients see it at once; nothing is pending for the name then.
func (u *updateTxn) holdBack(name string, sent *resource.Resource) bool {
	t, stream := u.table, &u.table.streams[u.by]
	stable := t.shown(u.by, name)
	_, pending := u.gate.Get(name)
	switch {
	case sent == nil && stable == nil && pending: // clients never saw it
		u.gate.End(name)
		return true
	case sent == nil && stable == nil:
		u.gate.End(name)
		return false
	}
	passage := t.passes(u.by, name, sent, stable)
	switch {
	case sent != nil && stable != nil && stable.SameContent(sent): // also where it returns to that
		u.gate.End(name)
		return false
	case passage != heldBack:
		t.group.cache.passages.count(passage)
		u.gate.End(name)
		return false
	}
	u.gate.Hold(name, sent, stable)
	if sent != nil {
		stream.guard.Release(name)
		stream.names.Return(name)
	}
	stream.names.Answer(name)
	return true
}

// shown returns the resource of a stream that clients may see by a canonical name.
func (t *core) shown(by int, name string) *resource.Resource {
	if e := t.store.Get(name); e != nil {
		if c := e.CopyFrom(by); c != nil {
			return c.Res
		}
	}
	return nil
}

// passes reports why clients see at once what a control plane has sent for a name, nil for a
// removal, if they do: what has or had a TTL, and what has aliases or belongs to a collection; a name that a
// client waits for, and that nobody has (K13); and of endpoint sets everything but the loss of all endpoints.
func (t *core) passes(by int, name string, sent, stable *resource.Resource) Passage {
	stream := &t.streams[by]
	if stream.gate.parks {
		if sent != nil && !sent.Hollow() || stable == nil || stable.Hollow() || !t.parked(name) {
			return passesEndpoints
		}
		return heldBack
	}
	if t.globWanted(name) {
		return PassesCollection
	}
	for _, r := range []*resource.Resource{sent, stable} {
		switch {
		case r != nil && r.TTL > 0:
			return PassesTTL
		case r != nil && len(r.Aliases) > 0:
			return PassesCollection
		}
	}
	e := t.store.Get(name)
	if e != nil && e.TTLState != nil {
		return PassesTTL
	}
	if sent == nil || e != nil && e.Res != nil {
		return heldBack
	}
	switch w := t.demand.Get(name); {
	case w != nil && w.Stream() == by:
		return PassesRequested
	case stream.gate.fresh:
		return PassesFirst
	}
	return heldBack
}

// parked reports whether stable clients still need an endpoint set: the removal of its cluster,
// or a change of the cluster's endpoint set, is pending.
func (t *core) parked(name string) (parked bool) {
	clusters := t.group.lookup(resource.TypeOf(resource.ClusterURL))
	if clusters == nil {
		return false
	}
	clusters.mu.RLock()
	defer clusters.mu.RUnlock()
	for i := range clusters.core.streams {
		if g := clusters.core.streams[i].gate; g != nil {
			for _, c := range g.All() {
				if c.Stable != nil && c.Stable.Endpoints == name && (c.Sent == nil || c.Sent.Endpoints != name) {
					return true
				}
			}
		}
	}
	return false
}

// releaseGates opens the gates of the table: what is pending becomes what clients see, as one
// update.
func (t *core) releaseGates(now time.Time, cause Cause) (changed int) {
	for by := range t.streams {
		stream := &t.streams[by]
		g := stream.gate
		if g == nil {
			continue
		}
		stream.gate = nil
		change := updateTxn{table: t, by: by, first: t.store.Gen() + 1, woken: t.woken, version: g.sent.version, held: true, noted: t.noted}
		for name, c := range g.All() {
			if c.Sent != nil {
				change.put(c.Sent)
			} else if e := t.store.Get(name); e != nil {
				change.drop(e)
				t.noteRemoved(by, name)
			}
		}
		if g.Len() == 0 {
			continue
		}
		stream.versions = g.sent
		n := int(t.store.Gen() + 1 - change.first)
		t.fed.Changes += uint64(n)
		t.record(&change, now, cause, "")
		t.rememberUpdate(&Update{Type: t.Type, Version: g.sent.version}, now, n, t.woken)
		changed += n
	}
	return changed
}

// endPending forgets what is pending for a name that no stream is asked for any more.
func (t *core) endPending(name string) {
	for by := range t.streams {
		g := t.streams[by].gate
		if g == nil {
			continue
		}
		if c, pending := g.Get(name); pending && c.Stable == nil && !t.covered(by, name, nil) {
			if c.Sent != nil {
				t.demand.Release(by, name, c.Sent.Name, by == t.demand.Wildcard().Stream())
			}
			g.End(name)
			t.streams[by].guard.Release(name)
		}
	}
}

// endAllPending is endPending for all names, once the demand for the wildcard has ended.
func (t *core) endAllPending() {
	for by := range t.streams {
		if g := t.streams[by].gate; g != nil {
			g.fresh = true
			for name := range g.All() {
				t.endPending(name)
			}
		}
	}
}

// addPending replaces the versions of what clients see by those of what the control plane has sent.
func (t *Table) addPending(by int, held map[string]string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	g := t.core.streams[by].gate
	if g == nil {
		return
	}
	for name, c := range g.All() {
		if c.Stable != nil {
			delete(held, c.Stable.Name)
		}
		if c.Sent != nil && c.Sent.Version != "" && !t.core.streams[by].guard.Has(name) {
			held[c.Sent.Name] = c.Sent.Version
		}
	}
}

// removalPends reports whether the removal of a name is held back.
func (u *updateTxn) removalPends(spelled string) bool {
	if u.gate == nil {
		return false
	}
	c, pending := u.gate.Get(resource.Canonical(spelled))
	return pending && c.Sent == nil
}

// gates checks what the gates of a table maintain incrementally.
func (c *checker) gates() {
	t := c.table
	for by := range t.streams {
		g := t.streams[by].gate
		if g == nil {
			continue
		}
		c.wrong = append(c.wrong, g.Check()...)
		for name, change := range g.All() {
			if now := t.shown(by, name); now != change.Stable && (now == nil || change.Stable == nil || !now.SameContent(change.Stable)) {
				c.complain("the pending change of %q is compared with what clients do not see", name)
			}
			if change.Stable == nil && !t.covered(by, name, nil) {
				c.complain("a change of %q is pending, and no client asks for it", name)
			}
		}
	}
}
