package cache

import (
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// Some resources must be neither cached nor shared (K17), and some types are meant for each client
// alone (K6). A client gets these through a private group: tables and upstream streams of its own,
// which end with it. No other client can find the group, because it is not in the cache's index of
// keys.
//
// Secrets are for clients that have proved their identity: clients of one key and one identity
// share a private group. It ends with the last of them, and no other identity finds it.

// owner identifies a private group that several clients may find.
type owner struct {
	key      aggregation.Key
	identity string
}

// JoinPrivate makes a private group for one client of the group of, with node as its identity
// towards the control plane. [Cache.Leave] ends it at once.
func (c *Cache) JoinPrivate(of *Group, node *corev3.Node) *Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.newPrivateLocked(of, node)
	g.sole = true
	c.startPrivateLocked(g)
	return g
}

// JoinIdentity adds a client to the private group that is shared by those clients of the group of
// that have proved to be identity, which is not empty. The first JoinIdentity makes the group, with
// the result of node as its identity towards the control plane. Each JoinIdentity needs one
// [Cache.Leave]; the last one ends the group at once.
func (c *Cache) JoinIdentity(of *Group, identity string, node func() *corev3.Node) *Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := owner{of.Key, identity}
	if g := c.identities[o]; g != nil {
		g.clients++
		return g
	}
	g := c.newPrivateLocked(of, node())
	g.identity = identity
	c.identities[o] = g
	c.startPrivateLocked(g)
	return g
}

func (c *Cache) newPrivateLocked(of *Group, node *corev3.Node) *Group {
	g := newGroup(c, of.Key, node)
	g.private, g.clients = true, 1
	return g
}

func (c *Cache) startPrivateLocked(g *Group) {
	c.privates[g] = struct{}{}
	if !c.closed {
		g.startLocked()
	}
}

// Private reports whether the group belongs to one client or one identity: its content must not be
// shown to others.
func (g *Group) Private() bool { return g.private }

// Sole reports whether the table belongs to one client, so that it may contain what must not be
// shared at all (K17).
func (t *Table) Sole() bool { return t.group.sole }

// dropLocked ends a private group, whose last client has left. cache.mu must be held.
func (g *Group) dropLocked() {
	delete(g.cache.privates, g)
	if g.identity != "" {
		delete(g.cache.identities, owner{g.Key, g.identity})
	}
	g.stopLocked(errIdle)
	g.endLocked()
}

func (c *Cache) privateGroups() []*Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.privates))
}

// lingers is how long demand outlives its last client (K10).
func (g *Group) lingers() time.Duration {
	if g.private {
		return 0
	}
	return g.cache.cfg.Linger
}

// setUncacheable records that a resource must not be cached: the table has an entry for it, so that
// the control plane has answered for it, but not the resource. Clients that ask for it have to move
// to a private group; see [SubscriptionState.Private]. They do not get it reported as absent.
func (u *updateTxn) setUncacheable(res *resource.Resource) {
	t := u.table
	hidden := table.State{Copy: table.Copy{Stream: u.by}, Denied: true}
	if u.gate != nil {
		u.gate.End(res.Key)
	}
	if e := t.store.Get(res.Key); e == nil || e.Res == nil && !e.Denied {
		u.set(res.Key, hidden)
	} else {
		u.leave(e, hidden)
	}
	names := namesOf(res)
	t.store.SetUncacheable(res.Key, names)
	for _, name := range names {
		if w := t.demand.Get(name); w != nil {
			u.send(w.Subscribers())
		}
	}
	u.send(t.demand.Wildcard().Subscribers())
}

// send makes the clients of subs move to private groups.
func (u *updateTxn) send(subs *subscribers) {
	for s := range subs.All() {
		s.private, s.gen = true, u.table.store.Gen() // other nodes are notified
		s.updates.Add(u.table.updates.Next())
		u.woken[s] = struct{}{} // also those that could not move before
	}
}

// namesOf returns the names by which clients may ask for res.
func namesOf(res *resource.Resource) []string {
	names := append([]string{res.Key}, res.Aliases...)
	if g := resource.GlobOf(res.Key); g != "" {
		names = append(names, g)
	}
	return names
}

// asksUncacheable reports whether s asks for a resource that must not be cached.
func (t *core) asksUncacheable(s *Subscription) bool {
	if len(t.store.Uncacheable()) == 0 || s.key.wildcard {
		return len(t.store.Uncacheable()) > 0
	}
	for name := range t.store.Uncacheable() {
		if _, ok := s.names[name]; ok {
			return true
		}
	}
	return false
}

// Wanted returns what w asks for, with names as the control plane is asked for them.
func (t *Table) Wanted(w *Watcher) (e Edit) {
	t.mu.RLock()
	s := w.sub
	t.mu.RUnlock()
	if s == nil {
		return e
	}
	e.AddWildcard = s.key.wildcard
	for n := range inSteps(t, t.mu.reading(), &s.names) {
		e.Add = append(e.Add, t.core.askedAs(n))
	}
	return e
}

// HeldAt returns what a client at a position has of what w sees. Resources that have changed since
// have an unknown version.
func (t *Table) HeldAt(w *Watcher, at Position) (held []resource.Held) {
	t.mu.RLock()
	s := w.sub
	t.mu.RUnlock()
	if s == nil || at.Gen == 0 {
		return nil
	}
	for _, e := range t.core.entriesInSteps(t.mu.reading()) {
		there, gen := s.sees(e)
		switch {
		case there && gen <= at.Gen:
			held = append(held, resource.Held{Name: e.Res.Name, Version: e.Res.Version})
		case gen > at.Removed:
			held = append(held, resource.Held{Name: t.core.called(e.Name)})
		}
	}
	return held
}
