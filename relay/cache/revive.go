package cache

import (
	"cmp"
	"time"

	"xdsrelay/relay/resource"
)

// A group that is new in this process may get the last known good of its key ([Group.Revive]). It
// then behaves as if it had been idle with that content: what clients ask for is present at once,
// is withheld from them while the control plane may answer, and is served if it does not. Resources
// are restored on first interest, because unsubscribed ones would never be refreshed. The table is
// stale until the control plane has answered, and until then no name counts as removed (K14).

// noVersion marks a copy whose version the control plane may use for other content by now.
const noVersion = "unknown"

// revivable is the part of a [Kept] that may still be restored.
type revivable struct {
	kept   Kept
	legs   []int               // for each stream of the snapshot: the index of today's, or Nobody
	named  map[string][]int    // indices of resources, by each of their names
	globs  map[string]struct{} // globs that are complete
	digest []resource.Digest   // of the content of each of today's streams
	taken  map[string]struct{} // names of the restored resources
	until  time.Time           // when the rest may be dropped
}

// Restore calls load the first time that it is called for a group, and does not return before that
// call has. load should pass what it finds to [Group.Revive].
func (g *Group) Restore(load func()) { g.restored.Do(load) }

// Revive gives the group the last known good of one type. Content that control planes have sent
// since the group was made stays unchanged.
func (g *Group) Revive(k Kept) {
	if g.private {
		return
	}
	r := g.newRevivable(k)
	g.mu.Lock()
	t := g.tables[k.Type.URL]
	if t == nil {
		if g.revivable == nil {
			g.revivable = make(map[string]*revivable)
		}
		g.revivable[k.Type.URL] = r
	}
	for i, l := range k.Legs {
		if leg := r.legs[i]; leg != Nobody && g.legs[leg].server == "" {
			g.legs[leg].server = l.Server
		}
	}
	g.mu.Unlock()
	g.lingerFrom(r.until)
	if t == nil {
		return
	}
	t.mu.Lock()
	t.revivable = r
	t.renewLocked(r)
	t.reviveWantedLocked(anyLeg)
	t.recallLocked(r)
	t.keepUpLocked(t.woken)
	woken := t.takeWokenLocked()
	t.mu.Unlock()
	g.changed()
	if len(woken) > 0 {
		g.cache.cfg.Wake(woken)
	}
}

func (g *Group) newRevivable(k Kept) *revivable {
	legs := g.cache.cfg.Legs
	r := &revivable{
		kept: k, legs: make([]int, len(k.Legs)), named: make(map[string][]int, len(k.Resources)), globs: make(map[string]struct{}, len(k.Globs)),
		digest: make([]resource.Digest, len(legs)), taken: make(map[string]struct{}), until: time.Now().Add(g.cache.cfg.Linger),
	}
	for i, l := range k.Legs {
		r.legs[i] = Nobody
		for now := range legs {
			if legs[now].is(l.Leg) {
				r.legs[i] = now
			}
		}
	}
	for _, n := range k.Globs {
		r.globs[n] = struct{}{}
	}
	for i, one := range k.Resources {
		for _, n := range namesOf(one.Resource) {
			r.named[n] = append(r.named[n], i)
		}
		for leg := range r.heldBy(one) {
			r.digest[leg] = r.digest[leg].Add(one.Resource.Member())
		}
	}
	return r
}

// heldBy iterates over today's streams that had a copy of a resource.
func (r *revivable) heldBy(one KeptResource) func(yield func(leg int) bool) {
	return func(yield func(int) bool) {
		for i, leg := range r.legs {
			if leg != Nobody && one.Legs&(1<<i) != 0 && !yield(leg) {
				return
			}
		}
	}
}

// addTo adds to k what is left and t has not received.
func (r *revivable) addTo(k *Kept, t *Table) {
	whole := r.kept.Wildcard && !t.wild.demanded()
	for _, one := range r.kept.Resources {
		key := one.Resource.Key
		if _, taken := r.taken[key]; taken || t.entries[key] != nil {
			e := t.entries[key]
			whole = whole && e != nil && e.res != nil // else its demand ended, and removed it
			continue
		}
		bits := uint64(0)
		for leg := range r.heldBy(one) {
			bits |= 1 << leg
		}
		if bits != 0 {
			one.Legs, one.Errored, one.ErroredSince = bits, t.errored.has(key), t.errored.sinceOf(key)
			k.Resources = append(k.Resources, one)
		}
	}
	k.Wildcard = k.Wildcard || whole
}

// bytes estimates the memory beyond that of the tables.
func (r *revivable) bytes() (n int64) {
	for _, one := range r.kept.Resources {
		if _, taken := r.taken[one.Resource.Key]; !taken {
			n += int64(one.Resource.Size())
		}
	}
	return n + int64(len(r.named))*64
}

// reviveNameLocked restores the resources of a name whose interest has just begun. t.mu must be
// held.
func (t *Table) reviveNameLocked(name string, w *want) {
	r := t.revivable
	if r == nil || !t.revivesLocked(w.leg) && !t.beginsLocked(w.leg) {
		return
	}
	if _, whole := r.globs[name]; resource.IsGlob(name) && !whole {
		return
	}
	seq := w.seq
	w.seq = min(seq, t.legs[w.leg].answered)
	for _, i := range r.named[name] {
		t.reviveResourceLocked(r, r.kept.Resources[i])
	}
	if !t.knowsLocked(name) {
		w.seq = seq
		return
	}
	t.closeLocked(w, name)
	t.settleRevivedLocked(w.leg)
}

// reviveWildcardLocked is reviveNameLocked for the wildcard.
func (t *Table) reviveWildcardLocked() {
	r := t.revivable
	leg := t.wild.leg
	if r == nil || !r.kept.Wildcard || !t.revivesLocked(leg) && !t.beginsLocked(leg) && !(t.group.cache.guards() && t.lacksWildcardLocked(leg)) {
		return
	}
	gen := t.gen
	for _, one := range r.kept.Resources {
		t.reviveResourceLocked(r, one)
	}
	if t.gen != gen {
		t.legs[leg].claims++
	}
	t.wild.seq = min(t.wild.seq, t.legs[t.wild.leg].answered)
	t.legs[t.wild.leg].restoredFrom(r)
	t.settleRevivedLocked(t.wild.leg)
}

// revivesLocked reports whether restored content is better than nothing: the stream has never
// answered for the type, or its control plane cannot be asked.
func (t *Table) revivesLocked(leg int) bool {
	return leg != Nobody && (t.legs[leg].answered == 0 || t.group.unreachable(1<<leg))
}

// beginsLocked reports whether a stream is about to ask for everything, on a new stream, once other
// nodes were asked: the removal guard can hold back removals of what they have (K16).
func (t *Table) beginsLocked(leg int) bool { return leg != Nobody && t.legs[leg].postponed }

// reviveResourceLocked puts a resource into the table as if each stream that had a copy, and asks
// for it again, had just received it.
func (t *Table) reviveResourceLocked(r *revivable, one KeptResource) {
	if e := t.entries[one.Resource.Key]; e != nil && (e.res == nil || !e.res.SameContent(one.Resource)) {
		return // the present content is newer
	}
	t.reviveNewLocked(r, one)
}

// reviveNewLocked is reviveResourceLocked for a resource that is newer than the present content.
func (t *Table) reviveNewLocked(r *revivable, one KeptResource) {
	res := one.lasting()
	if res == nil {
		return // its TTL has passed (F5)
	}
	for leg := range r.heldBy(one) {
		t.reviveThroughLocked(r, leg, res)
	}
	if w := t.wants[res.Key]; w != nil && w.leg != Nobody && t.entries[res.Key] == nil {
		t.reviveThroughLocked(r, w.leg, res) // subscribers by name see what only the wildcard's stream had (D11)
	}
}

// reviveThroughLocked makes res the copy of a stream that may have it and has none.
func (t *Table) reviveThroughLocked(r *revivable, leg int, res *resource.Resource) {
	if e := t.entries[res.Key]; e != nil && e.heldBy(leg) != nil || !t.mayHoldLocked(leg, res) {
		return
	}
	u := turn{table: t, by: leg, first: t.gen + 1, woken: t.woken}
	u.put(res)
	t.recordLocked(&u, time.Now(), CauseRestored, "")
	t.entries[res.Key].heldBy(leg).version = noVersion
	t.legs[leg].restoredFrom(r)
	r.taken[res.Key] = struct{}{}
}

// settleRevivedLocked updates the state of a stream after content of it was restored.
func (t *Table) settleRevivedLocked(by int) {
	leg := &t.legs[by]
	if !leg.stale {
		return
	}
	leg.version = ""
	for i, l := range t.revivable.kept.Legs {
		if t.revivable.legs[i] != by {
			continue
		}
		leg.source = cmp.Or(leg.source, l.Source)
		if leg.digest == t.revivable.digest[by] {
			leg.version = l.Version
		}
	}
	hold := t.group.cache.cfg.Hold
	if hold <= 0 || !t.group.mayImprove(by) || t.group.over() {
		return
	}
	leg.held = true
	if t.holding == nil {
		t.holding = time.AfterFunc(hold, t.release)
	} else {
		t.holding.Reset(hold)
	}
}

// release ends the withholding of restored content, though no control plane has answered.
func (t *Table) release() {
	woken := make(map[*Subscription]struct{})
	t.mu.Lock()
	for by := range t.legs {
		t.unholdLocked(by, woken)
	}
	t.mu.Unlock()
	t.group.cache.wake(woken)
}

// reviveWantedLocked restores what clients ask for on the given streams and is not known, and marks
// the subscriptions that wait for it.
func (t *Table) reviveWantedLocked(legs uint64) {
	if t.revivable == nil {
		return
	}
	gen := t.gen
	for name, w := range t.wants {
		if w.leg != Nobody && legs&(1<<w.leg) != 0 && !t.hasAnswered(w) {
			t.reviveNameLocked(name, w)
		}
	}
	if w := &t.wild; w.leg != Nobody && legs&(1<<w.leg) != 0 && w.demanded() && !t.hasAnswered(w) {
		t.reviveWildcardLocked()
	}
	if t.gen == gen && !t.staleLocked() {
		return
	}
	for s := range t.waiting {
		delete(t.waiting, s)
		s.waits = nil
		if s.key.wildcard {
			t.dependLocked(s, &t.wild)
		}
		for n := range s.names {
			t.dependLocked(s, t.wants[n])
		}
		t.woken[s] = struct{}{}
	}
}

// revive is reviveWantedLocked for the tables of a group, when a stream's control plane becomes
// unreachable.
func (g *Group) revive(leg int) {
	for _, t := range g.Tables() {
		t.mu.Lock()
		t.reviveWantedLocked(1 << leg)
		t.keepUpLocked(t.woken)
		woken := t.takeWokenLocked()
		t.mu.Unlock()
		if len(woken) > 0 {
			g.cache.cfg.Wake(woken)
		}
	}
}

// staleLocked reports whether the table has restored content for which the control plane has not
// answered yet.
func (t *Table) staleLocked() bool {
	for i := range t.legs {
		if t.legs[i].stale {
			return true
		}
	}
	return false
}

// Stale reports whether anything of the stream and the type was restored, and its control plane has
// not answered since.
func (f *Feed) Stale(typ *resource.Type) bool {
	t := f.group.lookup(typ)
	if t == nil {
		return false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.legs[f.leg].stale
}

// Settled reports whether the stream's control plane has answered for something that clients ask
// for of the type, even if it does not exist.
func (f *Feed) Settled(typ *resource.Type) bool {
	t := f.group.lookup(typ)
	if t == nil {
		return false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	leg := &t.legs[f.leg]
	open := len(leg.unanswered) + len(leg.assumed)
	if t.wild.demanded() && t.wild.leg == f.leg && !t.hasAnswered(&t.wild) {
		open++
	}
	return !leg.stale && leg.wanted > open
}

// letGoLocked drops restorable content that no client has asked for within the linger time, once
// the control planes answer. It returns when to check again, zero for never.
func (t *Table) letGoLocked(now time.Time) (next time.Time) {
	switch r := t.revivable; {
	case r == nil:
	case now.Before(r.until):
		return r.until
	case t.staleLocked() || t.group.unreachable(anyLeg):
		return now.Add(time.Minute)
	default:
		t.revivable = nil
	}
	return next
}

// letGo is letGoLocked for types that no client has asked for.
func (g *Group) letGo(now time.Time) (next time.Time) {
	out := g.unreachable(anyLeg)
	g.mu.Lock()
	defer g.mu.Unlock()
	for url, r := range g.revivable {
		at := r.until
		switch {
		case now.Before(at):
		case out:
			at = now.Add(time.Minute)
		default:
			delete(g.revivable, url)
			continue
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}
