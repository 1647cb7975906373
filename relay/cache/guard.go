package cache

import (
	"time"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// The removal guard (K16) holds back an answer's removals if they exceed a configured share of a
// full-state set, or leave it empty: usually that is a mistake of the control plane. The rest of
// the answer is applied, and the names stay served, until a later answer has them again, the hold
// time has passed, or an operator releases the removals.

// MassRemoval describes an answer that removes a large share of a full-state set.
type MassRemoval struct {
	Group *Group
	Type  *resource.Type
	// Origin is the control plane that sent the answer.
	Origin string
	// Removals is how many resources it removes, Of how many there were.
	Removals, Of int
	// HeldBack says that the removal guard has begun to hold the removals back; without a guard
	// they were applied.
	HeldBack bool
}

// Without a configured removal guard a mass removal is more than this share of a set, or all of it,
// unless the set is so small that this is an everyday change.
const (
	massPercent = 50
	massSet     = 5
)

// removalGuard holds the removals of a stream's answers that are held back. The zero guard holds
// none.
type removalGuard struct {
	// names are the resources that stay, with their eventual replacement, nil for a removal.
	names map[string]*resource.Resource
	until time.Time // zero: until they are released
	// forParents says that parents are the only reason (see children), so that until is when these
	// are checked again.
	forParents bool
	// restored says that the stream had restored content when the hold began or grew.
	restored bool
	// asOf is the last time at which all of them were known to be what the control plane serves.
	asOf time.Time
}

// served records that some of what is held back was last known to be served at a time.
func (g *removalGuard) served(asOf time.Time) {
	if g.asOf.IsZero() || asOf.Before(g.asOf) {
		g.asOf = asOf
	}
}

// servedLocked is when what a stream is about to lose was last known to be served: now if that is
// unknown.
func (t *Table) servedLocked(by int) time.Time {
	now := time.Now()
	if asOf := t.streamAsOfLocked(by, now); !asOf.IsZero() {
		return asOf
	}
	return now
}

func (g *removalGuard) has(name string) bool {
	_, ok := g.names[name]
	return ok
}

// release ends the hold on a name.
func (g *removalGuard) release(name string) {
	delete(g.names, name)
	if len(g.names) == 0 {
		*g = removalGuard{}
	}
}

// guardLocked decides which removals of u to hold back, before any is applied. before is how many
// resources the stream had when u arrived, and missing are those that a full state omits. It
// returns a mass removal that is news, whether it is held back or not; nil for none. t.mu must be
// held.
func (t *Table) guardLocked(by int, u Update, before int, missing []*table.Entry, kept *children) *MassRemoval {
	cfg, stream := &t.group.cache.cfg, &t.streams[by]
	if u.Mirror { // the owner holds back for all nodes, including what was held back here before
		stream.guard = removalGuard{}
		if t.remembersRemoved() {
			for name := range t.removalsLocked(by, u, missing) {
				t.noteRemovedLocked(by, name)
			}
		}
		return nil
	}
	if !u.Full && len(u.Removed)+len(u.Errors) == 0 || !t.Type.FullState && !t.group.cache.guards() {
		return nil
	}
	gone := t.removalsLocked(by, u, missing)
	defer func() {
		t.keepRemovedLocked(kept, by, u, gone)
		for name := range gone {
			if !stream.guard.has(name) {
				t.noteRemovedLocked(by, name)
			}
		}
	}()
	if !t.Type.FullState || !u.Full && len(u.Removed) == 0 {
		return nil
	}
	mass := &MassRemoval{Group: t.group, Type: t.Type, Origin: cfg.Streams[by].Origin, Removals: len(gone), Of: before}
	if cfg.MaxRemovalPercent <= 0 {
		if before < massSet || len(gone)*100 <= massPercent*before && len(gone) < t.store.Sum(by).Live {
			return nil
		}
		t.group.cache.massRemovals.Add(1)
		return mass
	}
	if u.Full { // it is complete: what it contains is no longer held back
		for name := range stream.guard.names {
			if _, out := gone[name]; !out {
				stream.guard.release(name)
			}
		}
	}
	removed := len(gone) // including what is held back already: a set may disappear in several steps
	for name := range stream.guard.names {
		if _, again := gone[name]; !again {
			removed++
		}
	}
	if removed*100 <= cfg.MaxRemovalPercent*before && removed < t.store.Sum(by).Live {
		if u.Full {
			stream.guard = removalGuard{}
		}
		return nil
	}
	if len(gone) == 0 || !t.holdBackLocked(by, gone, stream.confidence.FromLastGood()) {
		return nil
	}
	mass.HeldBack = true
	return mass
}

// holdBackLocked holds back the removal of a stream's resources with these names, as a mass
// removal, and reports whether that is news. restored says that they may be older than the control
// plane's previous answer.
func (t *Table) holdBackLocked(by int, gone map[string]struct{}, restored bool) (news bool) {
	cfg, stream := &t.group.cache.cfg, &t.streams[by]
	begins := len(stream.guard.names) == 0 || stream.guard.forParents
	stream.guard.forParents = false
	if stream.guard.names == nil {
		stream.guard.names = make(map[string]*resource.Resource, len(gone))
	}
	stream.guard.restored = stream.guard.restored || restored
	stream.guard.served(t.servedLocked(by))
	before := len(stream.guard.names)
	for name := range gone {
		stream.guard.names[name] = nil
	}
	more := len(stream.guard.names) > before
	t.holds = t.holds || more || begins
	if !begins {
		if cfg.RemovalHold > 0 && more { // the new ones get a full hold, too
			stream.guard.until = time.Now().Add(cfg.RemovalHold)
		}
		return false
	}
	if cfg.RemovalHold > 0 {
		stream.guard.until = t.group.holdUntil(t.Type, time.Now())
		t.group.guardFrom(stream.guard.until)
	}
	t.group.cache.held.Add(1)
	t.group.cache.massRemovals.Add(1)
	return true
}

// removalsLocked returns the names that u would remove from a stream's content.
func (t *Table) removalsLocked(by int, u Update, missing []*table.Entry) map[string]struct{} {
	gone := make(map[string]struct{})
	for _, spelled := range u.Removed {
		name := resource.Canonical(spelled)
		if e := t.store.Get(name); e != nil && e.CopyFrom(by) != nil {
			gone[name] = struct{}{}
		}
	}
	for _, e := range missing {
		if e.CopyFrom(by) != nil {
			gone[e.Name] = struct{}{}
		}
	}
	return gone
}

// removeHeldLocked applies what was held back on a stream, except for what is kept for its parents
// (see children), if there is any.
func (t *Table) removeHeldLocked(by int, kept *children, woken map[*Subscription]struct{}) (removed int) {
	stream := &t.streams[by]
	names := stream.guard.names
	stream.guard = removalGuard{}
	change := updateTxn{table: t, by: by, first: t.store.Gen() + 1, woken: woken, final: true}
	for name, then := range names {
		switch {
		case kept != nil && kept.has(name):
			t.keepLocked(by, name, then)
			delete(names, name)
		case then != nil:
			change.put(then)
		default:
			change.drop(t.store.Get(name))
			t.noteRemovedLocked(by, name)
		}
	}
	if len(names) > 0 {
		stream.version = "" // the present content was never sent with one
	}
	t.fed.Changes += t.store.Gen() + 1 - change.first
	t.recordLocked(&change, time.Now(), CauseReleased, "")
	return len(names)
}

// Release applies the removals that the guard holds back, and returns how many.
func (g *Group) Release() int { return g.removeHeld(time.Time{}, nil) }

// removeHeld applies the removals whose hold has ended at now, and those that were held back
// because of them; with the zero time all. elsewhere, which may be nil, applies those that end for
// another reason.
func (g *Group) removeHeld(now time.Time, elsewhere func(t *Table, woken map[*Subscription]struct{}) int) (removed int) {
	woken := make(map[*Subscription]struct{})
	var next time.Time
	for parentsGone, more := false, true; more; parentsGone = true {
		more, next = false, time.Time{}
		for _, t := range g.Tables() {
			t.mu.Lock()
			done := 0
			if elsewhere != nil {
				done = elsewhere(t, woken)
			}
			n, at := t.removeDueLocked(now, parentsGone, woken)
			n += done
			t.judgeOpenLocked(woken)
			t.recheckHeadLocked(woken)
			t.mu.Unlock()
			if more, removed = more || n > 0, removed+n; !at.IsZero() && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
	}
	g.changed()
	g.cache.wake(woken)
	if !next.IsZero() {
		g.guardFrom(next)
	}
	return removed
}

// removeDueLocked is removeHeld for one table, and returns when it is due next; zero for never.
// parentsGone says that removals of parents were applied just now.
func (t *Table) removeDueLocked(now time.Time, parentsGone bool, woken map[*Subscription]struct{}) (removed int, next time.Time) {
	for by := range t.streams {
		held := &t.streams[by].guard
		switch {
		case len(held.names) == 0:
		case now.IsZero():
			removed += t.removeHeldLocked(by, nil, woken)
		case !held.until.IsZero() && !held.until.After(now) && !held.forParents && !t.group.confirms(by):
			held.until = now.Add(t.group.cache.cfg.RemovalHold)
		case !held.until.IsZero() && !held.until.After(now) || held.forParents && parentsGone:
			removed += t.removeHeldLocked(by, &children{table: t}, woken)
		}
		if at := held.until; !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if at := t.forgetLostLocked(time.Now()); !at.IsZero() && (next.IsZero() || at.Before(next)) {
		next = at
	}
	return removed, next
}

// confirms reports whether a stream's control plane can revoke its removals: this node asks it, and
// it is reachable. It may be called with a table's mu held.
func (g *Group) confirms(stream int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.streams[stream].link.MayRevoke()
}

// guardFrom schedules a check of the held removals at at. It may be called with a table's mu held.
func (g *Group) guardFrom(at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended || !g.guardAt.IsZero() && !g.guardAt.After(at) {
		return
	}
	g.guardAt = at
	if g.guard == nil {
		g.guard = time.AfterFunc(time.Until(at), g.guardOver)
	} else {
		g.guard.Reset(time.Until(at))
	}
}

func (g *Group) guardOver() {
	g.mu.Lock()
	g.guardAt = time.Time{}
	g.mu.Unlock()
	g.removeHeld(time.Now(), nil)
}

// MassRemovals is how often an answer has removed a large share of a full-state set, whether that
// was held back or not.
func (c *Cache) MassRemovals() uint64 { return c.massRemovals.Load() }

// RemovalsHeld is how often the guard has begun to hold removals back.
func (c *Cache) RemovalsHeld() uint64 { return c.held.Load() }
