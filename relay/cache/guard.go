package cache

import (
	"time"

	"xdsrelay/relay/cache/removals"
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

// evidence says how far it is known that the control plane serves what a stream is about to lose:
// until now if that is unknown.
func (t *core) evidence(by int, restored bool) removals.Evidence {
	now := time.Now()
	if asOf := t.streamAsOf(by, now); !asOf.IsZero() {
		now = asOf
	}
	return removals.Evidence{AsOf: now, Restored: restored}
}

// guardRemovals decides which removals of u to hold back, before any is applied. before is how many
// resources the stream had when u arrived, and missing are those that a full state omits. It returns a
// mass removal that is news, whether it is held back or not; nil for none.
func (t *core) guardRemovals(by int, u Update, before int, missing []string, kept *children) *MassRemoval {
	cfg, stream := &t.group.cache.cfg, &t.streams[by]
	if u.Mirror != nil { // the owner holds back for all nodes, including what was held back here before
		stream.guard = removals.Hold{}
		if t.remembersRemoved() {
			for name := range t.removals(by, u, missing) {
				t.noteRemoved(by, name)
			}
		}
		return nil
	}
	if !u.Full && len(u.Removed)+len(u.Errors) == 0 || !t.Type.FullState && !t.group.cache.guards() {
		return nil
	}
	gone := t.removals(by, u, missing)
	defer func() {
		t.keepRemoved(kept, by, u, gone)
		for name := range gone {
			if !stream.guard.Has(name) {
				t.noteRemoved(by, name)
			}
		}
	}()
	if !t.Type.FullState || !u.Full && len(u.Removed) == 0 {
		return nil
	}
	mass := &MassRemoval{Group: t.group, Type: t.Type, Origin: cfg.Streams[by].Origin, Removals: len(gone), Of: before}
	loss := removals.Loss{Removed: len(gone), Before: before, Now: t.sentSum(by).Live}
	if cfg.MaxRemovalPercent <= 0 {
		if !loss.Mass() {
			return nil
		}
		t.group.cache.massRemovals.Add(1)
		return mass
	}
	if u.Full { // it is complete: what it contains is no longer held back
		stream.guard.ReleaseOthers(gone)
	}
	for name := range stream.guard.Names() {
		if _, again := gone[name]; !again {
			loss.Removed++
		}
	}
	if !loss.Exceeds(cfg.MaxRemovalPercent) {
		if u.Full {
			stream.guard = removals.Hold{}
		}
		return nil
	}
	e := t.evidence(by, stream.confidence.FromLastGood())
	if u.Kind == Unmentioned && stream.unmentioned != nil {
		e = *stream.unmentioned
	}
	if len(gone) == 0 || !t.holdBack(by, gone, e) {
		return nil
	}
	mass.HeldBack = true
	return mass
}

// holdBack holds back the removal of a stream's resources with these names, as a mass
// removal, and reports whether that is news.
func (t *core) holdBack(by int, gone map[string]struct{}, e removals.Evidence) (news bool) {
	guard := &t.streams[by].guard
	var until, extended time.Time
	if hold, now := t.group.cache.cfg.RemovalHold, time.Now(); hold > 0 {
		until, extended = t.group.holdUntil(t.Type, now), now.Add(hold)
	}
	held := guard.HoldMass(gone, until, extended, e)
	t.holds = t.holds || held.More || held.Begins
	if !held.Begins {
		return false
	}
	if !until.IsZero() {
		t.group.guardFrom(until)
	}
	t.group.cache.held.Add(1)
	t.group.cache.massRemovals.Add(1)
	return true
}

// removals returns the names that u would remove from a stream's content.
func (t *core) removals(by int, u Update, missing []string) map[string]struct{} {
	gone := make(map[string]struct{})
	for _, spelled := range u.Removed {
		name := resource.Canonical(spelled)
		if res, _ := t.sent(by, name); res != nil {
			gone[name] = struct{}{}
		}
	}
	for _, name := range missing {
		if res, _ := t.sent(by, name); res != nil {
			gone[name] = struct{}{}
		}
	}
	return gone
}

// removeHeld applies what was held back on a stream, except for what is kept for its parents
// (see children), if there is any.
func (t *core) removeHeld(by int, kept *children, woken map[*Subscription]struct{}) (removed int) {
	return t.remove(by, t.streams[by].guard.Take(), kept, woken)
}

// remove removes resources of a stream, or replaces them, except for what is kept for its
// parents, if kept is not nil. It returns how many.
func (t *core) remove(by int, names map[string]*resource.Resource, kept *children, woken map[*Subscription]struct{}) (removed int) {
	change := updateTxn{table: t, by: by, first: t.store.Gen() + 1, woken: woken, final: true, gate: t.streams[by].gate, noted: t.noted}
	shown := t.store.Sum(by).Digest
	for name, then := range names {
		switch {
		case kept != nil && kept.has(name):
			t.keep(by, name, then)
			delete(names, name)
		case then != nil:
			change.accept(then)
		default:
			change.lose(name)
			if t.shown(by, name) == nil {
				t.noteRemoved(by, name)
			}
		}
	}
	if version := t.streams[by].version; len(names) > 0 {
		t.streams[by].forgetVersion() // the present content was never sent with one
		if t.store.Sum(by).Digest == shown {
			t.streams[by].version = version
		}
	}
	t.fed.Changes += t.store.Gen() + 1 - change.first
	t.record(&change, time.Now(), CauseReleased, "")
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
			n, at := t.core.removeDue(now, parentsGone, woken)
			n += done
			t.core.judgeOpen(woken)
			t.core.recheckHead(woken)
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
	if removed > 0 {
		g.pendingChanged() // a rollout releases them
	}
	return removed
}

// removeDue is removeHeld for one table, and returns when it is due next; zero for never.
// parentsGone says that removals of parents were applied just now.
func (t *core) removeDue(now time.Time, parentsGone bool, woken map[*Subscription]struct{}) (removed int, next time.Time) {
	for by := range t.streams {
		held := &t.streams[by].guard
		switch step := held.Due(now, parentsGone, func() bool { return t.group.confirms(by) }); {
		case held.Len() > 0 && now.IsZero():
			removed += t.removeHeld(by, nil, woken)
		case step == removals.Extend:
			held.Postpone(now.Add(t.group.cache.cfg.RemovalHold))
		case step == removals.End:
			removed += t.removeHeld(by, &children{table: t}, woken)
		}
		if at := held.Until(); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if at := t.forgetLost(time.Now()); !at.IsZero() && (next.IsZero() || at.Before(next)) {
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
	if removed := g.removeHeld(time.Now(), nil); removed > 0 {
		g.cache.cfg.HoldEnded(g, removed)
	}
}

// MassRemovals is how often an answer has removed a large share of a full-state set, whether that
// was held back or not.
func (c *Cache) MassRemovals() uint64 { return c.massRemovals.Load() }

// RemovalsHeld is how often the guard has begun to hold removals back.
func (c *Cache) RemovalsHeld() uint64 { return c.held.Load() }
