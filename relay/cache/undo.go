package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache/gate"
	"xdsrelay/relay/resource"
)

// The updates of a key within a short time are one revision: xDS has no transactions, so clusters,
// routes and listeners of one intent arrive apart. The revisions are read from the histories of the
// tables, which also have the former contents that an undo brings back.

const (
	// revisionQuiet is how long nothing must arrive for a revision to be complete, and revisionMost
	// bounds how long one may take.
	revisionQuiet = 250 * time.Millisecond
	revisionMost  = 2 * time.Second
)

// Revision is all that changed of a key at about one time, of the types that a gate holds back.
type Revision struct {
	// ID identifies the content of these types after it, and is equal on every node for equal content
	// (K11); empty if it is no longer known.
	ID    string         `json:"id,omitempty"`
	At    time.Time      `json:"at"`
	Cause Cause          `json:"cause"`
	Types []RevisionType `json:"types"`
	// NotUndoable is empty if the revision can be undone, and otherwise says why not.
	NotUndoable string `json:"not_undoable,omitempty"`

	pasts []tablePast
}

// RevisionType is what a revision changed of a type.
type RevisionType struct {
	TypeURL string   `json:"type_url"`
	Added   int      `json:"added"`
	Changed int      `json:"changed"`
	Removed int      `json:"removed"`
	Names   []string `json:"names"` // of the first of them
}

type tablePast struct {
	table *core
	past
}

// errFirst is about the first content of a key.
var errFirst = errors.New("there was nothing before")

// fromControlPlane reports whether the control plane is the reason for a change.
func (c Cause) fromControlPlane() bool {
	return c == CauseOrigin || c == CauseReleased || c == CauseUnfrozen || c == CausePromoted
}

// The errors of [Cache.Undo].
var (
	ErrNothingToUndo = errors.New("no earlier revision is known")
	// ErrByOther: a part of what it changed may be known to other nodes only.
	ErrByOther = errors.New("another node received the newest revision from the control plane, and owned the key then, so this one does not know all that it changed; return to the former configuration in the control plane")
	ErrNoKey   = errors.New("no such key")
)

// pastsOf returns the remembered updates of the gated types of a group, the oldest first.
func (g *Group) pastsOf() (all []tablePast) {
	for _, t := range g.Tables() {
		if !gated[t.Type.URL] {
			continue
		}
		t.mu.RLock()
		for i := range t.core.history.ring {
			all = append(all, tablePast{&t.core, t.core.history.ring[(t.core.history.next+i)%len(t.core.history.ring)]})
		}
		t.mu.RUnlock()
	}
	slices.SortStableFunc(all, func(a, b tablePast) int { return int(int64(a.number) - int64(b.number)) })
	return all
}

// Revisions returns the revisions that are remembered, the newest first.
func (g *Group) Revisions() []Revision {
	var all []Revision
	digests, unknown := make(map[string]resource.Digest), make(map[string]bool)
	for _, t := range g.Tables() {
		t.mu.RLock()
		if gated[t.Type.URL] && t.core.history.forgotten > 0 {
			unknown[t.Type.URL] = true // until its first update that is remembered
		}
		t.mu.RUnlock()
	}
	began, last := int64(0), int64(0)
	for _, p := range g.pastsOf() {
		if n := len(all); n == 0 || p.at-last > revisionQuiet.Milliseconds() || p.at-began > revisionMost.Milliseconds() || all[n-1].Cause != p.cause {
			all, began = append(all, Revision{Cause: p.cause}), p.at
		}
		r := &all[len(all)-1]
		last, r.At = p.at, time.UnixMilli(p.at)
		r.pasts = append(r.pasts, p)
		digests[p.table.Type.URL] = p.all
		delete(unknown, p.table.Type.URL)
		r.ID = ""
		if len(unknown) == 0 {
			r.ID = revisionID(digests)
		}
	}
	for i := range all {
		all[i].complete()
	}
	slices.Reverse(all)
	return all
}

// revisionID names the content of types.
func revisionID(digests map[string]resource.Digest) string {
	urls := make([]string, 0, len(digests))
	for url, d := range digests {
		if d != (resource.Digest{}) {
			urls = append(urls, url)
		}
	}
	slices.Sort(urls)
	h := sha256.New()
	for _, url := range urls {
		fmt.Fprintf(h, "%s %s\n", url, digests[url].Hex())
	}
	return "r-" + hex.EncodeToString(h.Sum(nil)[:4])
}

// complete adds what can be read of a revision.
func (r *Revision) complete() {
	for _, p := range r.pasts {
		i := slices.IndexFunc(r.Types, func(t RevisionType) bool { return t.TypeURL == p.table.Type.URL })
		if i < 0 {
			i = len(r.Types)
			r.Types = append(r.Types, RevisionType{TypeURL: p.table.Type.URL, Names: []string{}})
		}
		t := &r.Types[i]
		t.Added, t.Changed, t.Removed = t.Added+int(p.added), t.Changed+int(p.changed), t.Removed+int(p.removed)
		for _, e := range p.names.edits() {
			if !slices.Contains(t.Names, e.name) {
				t.Names = append(t.Names, e.name)
			}
		}
	}
	switch _, err := r.inverse(); {
	case r.Cause == CauseOwner:
		r.NotUndoable = ErrByOther.Error()
	case !r.Cause.fromControlPlane():
		r.NotUndoable = "the control plane did not cause it"
	case err != nil:
		r.NotUndoable = err.Error()
	}
}

// former is what a resource was before a revision, nil if it did not exist.
type former struct {
	table *Table
	by    int
	name  string
	added bool
	res   *resource.Resource
}

// inverse returns the names that a revision changed, with what they were before; an error if that is
// not known of all.
func (r *Revision) inverse() (all []former, err error) {
	seen := make(map[former]bool)
	lost := 0
	for _, p := range r.pasts {
		if p.added == p.present && p.changed+p.removed == 0 {
			continue // the first content of the type
		}
		edits, kept := p.table.group.cache.past.read(p.contents)
		if !kept {
			edits = p.names.edits()
		}
		lost += int(p.added+p.changed+p.removed) - len(edits)
		for i := range edits {
			e := &edits[i]
			if e.kind != edAdded && e.from == nil {
				lost++
			}
			id := former{table: p.table.shell, by: int(p.by), name: e.name}
			if seen[id] {
				continue // what it was before the first of them counts
			}
			seen[id] = true
			id.added, id.res = e.kind == edAdded, e.from
			all = append(all, id)
		}
	}
	switch {
	case lost > 0:
		return nil, fmt.Errorf("the former contents of %d of its resources are not kept (limits.max_history_size, cache.history)", lost)
	case len(all) == 0:
		return nil, errFirst
	}
	return all, nil
}

// onDemand reports whether the name was added because a client asked for it by name: nobody had it
// before, so that there is nothing to go back to.
func (f *former) onDemand() bool {
	f.table.mu.RLock()
	defer f.table.mu.RUnlock()
	return f.added && f.table.core.demand.Get(f.name) != nil
}

// Undo brings all clients of a key back to what they had before the newest revision, or the one before
// it if that is undone already, and refuses what it undid: it stays pending until the control plane sends
// something else, or the order ends by [Cache.Unfreeze]. It returns the order and the number of changes.
func (c *Cache) Undo(key aggregation.Key, f Freeze) (u Undone, changes int, err error) {
	g := c.GroupOf(key)
	if g == nil {
		return u, 0, ErrNoKey
	}
	g.mu.Lock()
	before := g.undone
	if before == nil {
		g.undone = &Undone{} // nothing may arrive while the revision is read
	}
	g.mu.Unlock()
	g.closeGates()
	id, all, oldest, err := g.lastRevision(before)
	if err != nil {
		if before == nil {
			g.mu.Lock()
			g.undone = nil
			frozen := g.freeze != nil
			g.mu.Unlock()
			if !frozen {
				g.releaseGates(CauseOrigin)
			}
		}
		return u, 0, err
	}
	u = Undone{Freeze: f, Revisions: []string{id}, oldest: oldest}
	if before != nil {
		u.Revisions, u.Refused = append(u.Revisions, before.Revisions...), slices.Clone(before.Refused)
	}
	byTable := make(map[*Table][]former)
	for _, one := range all {
		byTable[one.table] = append(byTable[one.table], one)
	}
	var woken []*Subscription
	for _, t := range g.Tables() {
		t.mu.Lock()
		changes += t.core.undo(byTable[t], &u)
		t.core.recheckHead(t.core.woken)
		woken = append(woken, t.core.takeWoken()...)
		t.unlockAndSignal()
	}
	g.mu.Lock()
	g.undone = &u
	g.mu.Unlock()
	c.mu.Lock()
	if c.freezes.undone == nil {
		c.freezes.undone = make(map[aggregation.Key]*Undone)
	}
	c.freezes.undone[key] = &u
	c.mu.Unlock()
	g.changed()
	if len(woken) > 0 {
		c.cfg.Wake(woken)
	}
	g.judgeUndone() // the control plane may be back there already
	return u, changes, nil
}

// lastRevision returns what the newest revision changed that is not undone yet, as that was before, and
// the number of its first update.
func (g *Group) lastRevision(undone *Undone) (id string, all []former, oldest uint64, err error) {
	for _, r := range g.Revisions() {
		switch {
		case undone != nil && undone.oldest > 0 && r.pasts[0].number >= undone.oldest, r.Cause != CauseOwner && !r.Cause.fromControlPlane():
			continue
		}
		all, err = r.inverse()
		all = slices.DeleteFunc(all, func(f former) bool { return f.onDemand() })
		switch {
		case errors.Is(err, errFirst):
		case err != nil:
			return "", nil, 0, err
		case len(all) > 0 && r.Cause == CauseOwner:
			return "", nil, 0, ErrByOther
		case len(all) > 0:
			return r.ID, all, r.pasts[0].number, nil
		}
	}
	return "", nil, 0, ErrNothingToUndo
}

// undo gives the names of a table back what they were, and adds what the control plane has sent
// instead to u.
func (t *core) undo(all []former, u *Undone) (changes int) {
	if len(all) == 0 {
		return 0
	}
	now := time.Now()
	t.close(t.group.gates()) // the hold of an earlier undo may have ended just now
	for by := range t.streams {
		stream := &t.streams[by]
		change := updateTxn{table: t, by: by, first: t.store.Gen() + 1, woken: t.woken, final: true}
		shown := t.store.Sum(by).Digest
		for _, f := range all {
			if f.by != by {
				continue
			}
			sent, _ := t.sent(by, f.name)
			switch e := t.store.Get(f.name); {
			case f.res != nil && t.mayHold(by, f.res):
				change.put(f.res)
			case f.res == nil && e != nil:
				change.drop(e)
			}
			is := t.shown(by, f.name)
			stream.gate.Hold(f.name, sent, is)
			if gate.Digest(sent) == gate.Digest(is) || t.refuses(u, by, f.name) {
				continue
			}
			digest := gate.Digest(sent)
			stream.gate.Refuse(f.name, digest)
			one := Refused{TypeURL: t.Type.URL, Stream: t.group.cache.cfg.Streams[by].String(), Name: f.name}
			if sent != nil {
				one.Digest = digest.Hex()
			}
			u.Refused = append(u.Refused, one)
		}
		if t.store.Sum(by).Digest != shown {
			stream.version = ""
		}
		n := int(t.store.Gen() + 1 - change.first)
		t.fed.Changes += uint64(n)
		t.record(&change, now, CauseUndone, "")
		t.rememberUpdate(&Update{Type: t.Type}, now, n, t.woken)
		changes += n
	}
	return changes
}

// refuses reports whether something of a name is refused already.
func (t *core) refuses(u *Undone, by int, name string) bool {
	stream := t.group.cache.cfg.Streams[by].String()
	return slices.ContainsFunc(u.Refused, func(r Refused) bool { return r.TypeURL == t.Type.URL && r.Stream == stream && r.Name == name })
}

// refuse makes the gates of a new table refuse what was undone.
func (t *core) refuse(u *Undone) {
	if u == nil {
		return
	}
	for _, r := range u.Refused {
		by := t.group.cache.StreamNamed(r.Stream)
		if r.TypeURL != t.Type.URL || by < 0 || t.streams[by].gate == nil {
			continue
		}
		var digest resource.Digest
		if b, err := hex.DecodeString(r.Digest); err == nil {
			copy(digest[:], b)
		}
		t.streams[by].gate.Refuse(r.Name, digest)
	}
}

// differs reports whether the control plane has sent something else instead of what was undone. A
// name of which it may still send anything does not count. The owner of the key judges for its followers.
func (t *core) differs() bool {
	for by := range t.streams {
		stream := &t.streams[by]
		if stream.gate == nil || stream.speaker.mirror || stream.confidence.Unconfirmed() || !t.demand.Stream(by).HasAnswered() {
			continue
		}
		if stream.gate.Differs(func(name string) bool { return t.covered(by, name, nil) }) {
			return true
		}
	}
	return false
}

// judgeUndone ends the hold at an earlier revision once the control plane has sent something else, and
// that is complete; see [revisionQuiet].
func (g *Group) judgeUndone() {
	if !g.differs() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.ended || g.undone == nil || g.freeze != nil {
		return
	}
	if g.settleBegan.IsZero() {
		g.settleBegan = now
	}
	wait := min(revisionQuiet, revisionMost-now.Sub(g.settleBegan))
	if g.settle == nil {
		g.settle = time.AfterFunc(wait, g.settled)
	} else {
		g.settle.Reset(wait)
	}
}

func (g *Group) differs() bool {
	return slices.ContainsFunc(g.Tables(), func(t *Table) bool {
		t.mu.RLock()
		defer t.mu.RUnlock()
		return t.core.differs()
	})
}

func (g *Group) settled() {
	differs := g.differs()
	g.mu.Lock()
	g.settleBegan = time.Time{}
	if !differs || g.undone == nil || g.freeze != nil || g.ended {
		g.mu.Unlock()
		return
	}
	ended := g.undone
	g.undone = nil
	g.mu.Unlock()
	g.cache.mu.Lock()
	if g.cache.freezes.undone[g.Key] == ended {
		delete(g.cache.freezes.undone, g.Key)
	}
	g.cache.mu.Unlock()
	g.cache.cfg.UndoEnded(g, g.releaseGates(CauseOrigin))
}
