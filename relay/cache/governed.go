package cache

import (
	"maps"
	"slices"
	"time"

	"xdsrelay/relay/cache/confidence"
	"xdsrelay/relay/cache/gate"
	"xdsrelay/relay/resource"
)

// A rollout releases the changes of a governed key: its gates stay closed for the types of the
// governor. All that is pending is cut into an overlay, which some clients are shown as a
// [Candidate], and which [Group.Promote] makes what all clients see.

// Governor is what releases the changes of a key. It is not changed after [Group.Govern].
type Governor struct {
	// Types are the URLs of the types whose changes are held back.
	Types map[string]bool
	// Wait is how long the ACK of a response may wait until canaries have answered, if it changes what is
	// pending; 0: it does not wait.
	Wait time.Duration
	// Changed is called after the control plane has changed what is pending, or nobody asks for some of
	// it any more, sometimes without need. It must not block.
	Changed func(*Group)
}

func (g *Governor) governs(url string) bool { return g != nil && g.Types[url] }

// Govern makes a governor release the changes of a key from now on, instead of the one before it. With
// nil, and for types that the new one does not have, clients get what was held back, unless an order
// still holds it. It returns the number of such changes. Private groups have no governor.
func (g *Group) Govern(by *Governor) (changes int) {
	g.mu.Lock()
	was := g.governor
	g.governor = by
	g.mu.Unlock()
	if by != nil {
		g.closeGates()
	}
	if was != nil {
		changes = g.releaseGates(CauseOrigin)
	}
	return changes
}

// IsGoverned reports whether a governor releases the changes of the key.
func (g *Group) IsGoverned() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.governor != nil
}

// pendingChanged notifies the governor that the pending changes may be others.
func (g *Group) pendingChanged() {
	g.mu.Lock()
	by := g.governor
	g.mu.Unlock()
	if by != nil {
		by.Changed(g)
	}
}

// edits counts the changes of what is pending of a stream.
func (t *core) edits(by int) uint64 {
	if g := t.streams[by].gate; g != nil {
		return g.Edits()
	}
	return 0
}

// HasPending reports whether anything is pending. Parked endpoint sets do not count.
func (g *Group) HasPending() bool {
	return slices.ContainsFunc(g.Tables(), func(t *Table) bool {
		t.mu.RLock()
		defer t.mu.RUnlock()
		for by := range t.core.streams {
			if gate := t.core.streams[by].gate; gate != nil && !gate.parks && gate.Len() > 0 {
				return true
			}
		}
		return false
	})
}

// PendingBytes estimates the memory of all that is pending.
func (g *Group) PendingBytes() (n int64) {
	for _, t := range g.Tables() {
		t.mu.RLock()
		for by := range t.core.streams {
			if gate := t.core.streams[by].gate; gate != nil {
				n += gate.Bytes()
			}
		}
		t.mu.RUnlock()
	}
	return n
}

// HasAnswered reports whether each upstream stream of the key has answered for all types with gates, or
// that are observed, that it was asked for, and there are any. A control plane that has sent all of a type
// before may have nothing to send on a new stream, so its silence counts after [confidence.Silence].
func (g *Group) HasAnswered() bool {
	asked, now := false, time.Now()
	for _, t := range g.Tables() {
		t.mu.RLock()
		for by := range t.core.streams {
			gate, demand := t.core.streams[by].gate, t.core.demand.Stream(by)
			if gate == nil && t.core.noted == nil || gate != nil && gate.parks || demand.Wanted() == 0 {
				continue
			}
			asked = true
			is := &t.core.streams[by].confidence
			up, _ := g.lostAt(by)
			if !demand.HasAnswered() || is.Unconfirmed() && !(up && is.Is(confidence.Lasts, now)) {
				t.mu.RUnlock()
				return false
			}
		}
		t.mu.RUnlock()
	}
	return asked
}

// Touch notifies those who store the group's content that it may be stored now, although it has not changed.
func (g *Group) Touch() { g.changed() }

// Overlay is all that was pending of a key at one moment. It is immutable.
type Overlay struct {
	group *Group
	parts []overlayPart // by the order E1
}

// overlayPart is what was pending of a stream and type.
type overlayPart struct {
	table   *Table
	by      int
	changes map[string]gate.Change
	digest  resource.Digest // of all that the control plane had sent
	pending resource.Digest // of the changes
	live    int
	sent    versions
}

// OverlayChange is a name that an overlay changes.
type OverlayChange struct {
	Type *resource.Type
	Name string // canonical
	// Before and After are the resource that clients had when the overlay was cut, and the one of the
	// overlay. Nil means none.
	Before, After *resource.Resource
}

// Digest identifies the resource of the overlay by name and content; empty for none.
func (c *OverlayChange) Digest() string {
	if c.After == nil {
		return ""
	}
	return gate.Digest(c.After).Hex()
}

// CutOverlay returns all that is pending; nil if nothing is. Parked endpoint sets are no part of it.
func (g *Group) CutOverlay() *Overlay {
	o := &Overlay{group: g}
	for _, t := range g.Tables() {
		t.mu.RLock()
		for by := range t.core.streams {
			gates := t.core.streams[by].gate
			if gates == nil || gates.parks || gates.Len() == 0 {
				continue
			}
			sum := t.core.sentSum(by)
			o.parts = append(o.parts, overlayPart{
				table: t, by: by, changes: maps.Collect(gates.All()), digest: sum.Digest, pending: gates.Digest(), live: sum.Live, sent: gates.sent,
			})
		}
		t.mu.RUnlock()
	}
	if len(o.parts) == 0 {
		return nil
	}
	return o
}

// Tables returns the tables that the overlay changes.
func (o *Overlay) Tables() (all []*Table) {
	for i := range o.parts {
		if t := o.parts[i].table; !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// Changes returns what the overlay changes, by type in the order E1, and by name.
func (o *Overlay) Changes() (all []OverlayChange) {
	for _, p := range o.parts {
		for _, name := range slices.Sorted(maps.Keys(p.changes)) {
			c := p.changes[name]
			all = append(all, OverlayChange{p.table.Type, name, c.Stable, c.Sent})
		}
	}
	return all
}

// Candidate returns the overlay as what canaries are shown, with a name for it.
func (o *Overlay) Candidate(revision string) *Candidate {
	views := make(map[*Table]*View)
	for t, one := range o.views() {
		if v := t.NewView(one.replace, one.origin); v != nil {
			views[t] = v
		}
	}
	return NewCandidate(revision, views)
}

// overlayView is what an overlay replaces in a table.
type overlayView struct {
	replace map[string]Replacement
	origin  Stamp
}

func (o *Overlay) views() map[*Table]overlayView {
	views := make(map[*Table]overlayView)
	for rest := o.parts; len(rest) > 0; {
		t := rest[0].table
		n := 1
		for n < len(rest) && rest[n].table == t {
			n++
		}
		one := overlayView{replace: make(map[string]Replacement)}
		for i := range rest[:n] {
			p := &rest[i]
			t.mu.RLock()
			wild := p.by == t.core.demand.Wildcard().Stream()
			t.mu.RUnlock()
			for name, c := range p.changes {
				if _, twice := one.replace[name]; !twice || c.Sent != nil {
					one.replace[name] = Replacement{Resource: c.Sent, Member: c.Sent != nil && wild}
				}
			}
		}
		if n == 1 { // the content of several streams has no version of a control plane
			one.origin = Stamp{Digest: rest[0].digest, Live: rest[0].live, Version: rest[0].sent.version, System: rest[0].sent.system}
		}
		views[t] = one
		rest = rest[n:]
	}
	return views
}

// Promote makes an overlay of the key what all clients see: one update of each type, in the order E1.
// Names that are no longer pending are left out: clients see what the control plane has sent instead.
// It returns the number of changes.
func (g *Group) Promote(o *Overlay, cause Cause) (changes int) {
	changes = g.applyAll(func(t *Table, now time.Time) (n int) {
		for i := range o.parts {
			if p := &o.parts[i]; p.table == t {
				n += t.core.promote(p, now, cause)
			}
		}
		return n
	})
	return changes + g.releaseParked(cause)
}

func (t *core) promote(p *overlayPart, now time.Time, cause Cause) int {
	stream := &t.streams[p.by]
	if stream.gate == nil {
		return 0
	}
	change := updateTxn{table: t, by: p.by, first: t.store.Gen() + 1, woken: t.woken, version: p.sent.version, held: true}
	shown := t.store.Sum(p.by).Digest
	for name, c := range p.changes {
		now, pending := stream.gate.Get(name)
		if !pending {
			continue
		}
		if c.Sent != nil && t.mayHold(p.by, c.Sent) {
			change.put(c.Sent)
		} else if e := t.store.Get(name); c.Sent == nil && e != nil {
			change.drop(e)
			t.noteRemoved(p.by, name)
		}
		stream.gate.Hold(name, now.Sent, t.shown(p.by, name))
	}
	switch visible := t.store.Sum(p.by).Digest; {
	case visible == t.sentSum(p.by).Digest && stream.gate.Len() == 0:
		stream.versions = stream.gate.sent
	case visible == p.digest:
		stream.versions = p.sent
	case visible != shown:
		stream.version = ""
	}
	return t.released(&change, &Update{Type: t.Type, Version: change.version}, now, cause)
}

// released records an update that a gate had held back.
func (t *core) released(change *updateTxn, u *Update, now time.Time, cause Cause) int {
	n := int(t.store.Gen() + 1 - change.first)
	t.fed.Changes += uint64(n)
	t.record(change, now, cause, "")
	t.rememberUpdate(u, now, n, t.woken)
	return n
}

// releaseParked applies what was held back of endpoint sets whose clusters no longer need it.
func (g *Group) releaseParked(cause Cause) (changes int) {
	return g.applyAll(func(t *Table, now time.Time) (n int) {
		if _, parks := g.gates().has(t.Type.URL); !parks {
			return 0
		}
		for by := range t.core.streams {
			gates := t.core.streams[by].gate
			if gates == nil || gates.Len() == 0 {
				continue
			}
			change := updateTxn{table: &t.core, by: by, first: t.core.store.Gen() + 1, woken: t.core.woken, version: gates.sent.version, held: true}
			for name, c := range gates.All() {
				if t.core.parked(name) {
					continue
				}
				if c.Sent != nil {
					change.put(c.Sent)
				} else if e := t.core.store.Get(name); e != nil {
					change.drop(e)
				}
				gates.End(name)
			}
			if gates.Len() == 0 {
				t.core.streams[by].versions = gates.sent
			}
			n += t.core.released(&change, &Update{Type: t.Type, Version: change.version}, now, cause)
		}
		return n
	})
}

// ReleaseParked applies what was held back of endpoint sets, as far as no pending change of a cluster
// needs it. It returns the number of changes.
func (g *Group) ReleaseParked() (changes int) { return g.releaseParked(CauseOrigin) }
