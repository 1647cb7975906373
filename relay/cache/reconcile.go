package cache

import (
	"slices"
	"strings"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// Reconcile compares what a client claims to have with what it should see (B37). It returns the
// names that must be sent, because they changed, are new to the client, or are removed; the
// position from which the client then follows, which is before all notes; and the claims about
// names of which nothing is known yet, in canonical form. There may be very many names, so it is
// done in steps: concurrent changes are after that position, so the client gets them in any case. v,
// which may be nil, is the view that the client should see. With open, what it claims and does not exist
// is left for [Table.Gone].
func (t *Table) Reconcile(w *Watcher, v *View, claims []resource.Held, open bool) (send *Names, at Position, rest []resource.Held) {
	t.mu.RLock()
	s := w.sub
	if s == nil {
		t.mu.RUnlock()
		return nil, Start, claims
	}
	gen := v.reaches(s.gen)
	at = Position{Gen: gen, Removed: gen}
	r := reconciling{table: &t.core, sub: s, view: v, open: open, names: []string{}, kept: children{table: &t.core}}
	r.whole = r.count()
	t.mu.RUnlock()
	i := 0
	for some := range slices.Chunk(claims, t.group.cache.step) {
		t.mu.RLock()
		for _, c := range some {
			if r.claimed == nil && !r.matches(c) {
				r.list(claims, i)
			}
			if r.claimed != nil {
				r.claim(c)
			}
			i++
		}
		t.mu.RUnlock()
	}
	if r.claimed == nil {
		if r.whole && r.matched == r.expected {
			return nil, at, nil
		}
		t.mu.RLock()
		r.list(claims, len(claims))
		t.mu.RUnlock()
	}
	see := r.see
	if v != nil {
		see = v.without(see)
		t.mu.RLock()
		v.each(r.see)
		t.mu.RUnlock()
	}
	if s.key.wildcard {
		for _, e := range t.core.entriesInSteps(t.mu.reading()) {
			see(e)
		}
	} else {
		s.eachNamed(see)
	}
	r.claimed = nil // it takes megabytes, and so does what follows
	// Heartbeats that the client may have missed keep its resources alive.
	return NewNames(r.names), at, ownTexts(r.rest, len(claims))
}

// ownTexts gives claims that are kept, of all that a client made, memory of their own if they are few:
// the texts of all claims of a request are in one piece.
func ownTexts(kept []resource.Held, all int) []resource.Held {
	if len(kept) < all/2 {
		for i, h := range kept {
			kept[i] = resource.Held{Name: strings.Clone(h.Name), Version: strings.Clone(h.Version)}
		}
	}
	return kept
}

// reconciling is one call of Reconcile. Most clients return with exactly what they should have, which
// a sum over their claims shows. Only others need a list of what they claim.
type reconciling struct {
	table *core
	sub   *Subscription
	view  *View // nil for none
	open  bool  // claims to what does not exist are left
	// whole says that expected is all that a client of sub should have; matched is what it claims.
	whole             bool
	matched, expected table.Sum
	claimed           map[*table.Entry]struct{} // nil while all claims match
	names             []string                  // to be sent
	rest              []resource.Held
	kept              children
}

// countLocked sets expected. It returns false where that would have to be searched for, or is not all:
// names of which some are absent, aliases, globs, and names next to the wildcard.
func (r *reconciling) count() bool {
	t, s := r.table, r.sub
	r.expected.Digest, r.expected.Live = t.sumIn(s, r.view)
	if s.key.wildcard {
		return len(s.names) == 0
	}
	return r.expected.Live == len(s.names) && s.globs == 0 && !t.store.Aliased()
}

// matches reports whether the client should have just what it claims, and counts that.
func (r *reconciling) matches(c resource.Held) bool {
	if !r.whole {
		return false
	}
	e := r.table.entry(r.view, resource.Canonical(c.Name))
	if e == nil || !r.has(e) || e.Res.Version != c.Version || r.table.takenBack(e.Name) {
		return false
	}
	r.matched.Live++
	r.matched.Digest = r.matched.Digest.Add(e.Res.Member())
	return true
}

// list lists the first n claims, which all match.
func (r *reconciling) list(claims []resource.Held, n int) {
	r.claimed = make(map[*table.Entry]struct{}, len(claims))
	for _, c := range claims[:n] {
		if e := r.table.entry(r.view, resource.Canonical(c.Name)); e != nil {
			r.claimed[e] = struct{}{}
		}
	}
}

func (r *reconciling) claim(c resource.Held) {
	t, s := r.table, r.sub
	c.Name = resource.Canonical(c.Name)
	e := t.entry(r.view, c.Name) // not an alias: a client has resources by their names
	_, named := s.names[c.Name]
	there, byName := false, false
	if e != nil {
		there, _ = s.sees(e)
		byName = s.asksFor(e)
	}
	unjudged := !r.view.replaces(c.Name) && s.key.wildcard && !byName && !t.covers(s, c.Name) && !t.judged(c.Name)
	switch {
	case there && t.takenBack(c.Name):
		r.names = append(r.names, c.Name) // only the resource reverts the error (C16)
	case e == nil && (named || t.opens(s, c.Name)), unjudged:
		r.rest = append(r.rest, c)
		return
	case there && e.Res.Version == c.Version:
	case !there && !r.view.replaces(c.Name) && (r.open || t.doubtsName(s, c.Name) || r.kept.mayHave(c.Name)):
		r.rest = append(r.rest, c) // it may be newer than what is known
	case e != nil:
		r.names = append(r.names, e.Name) // else the claim would stay, with its version
	default:
		r.names = append(r.names, strings.Clone(c.Name)) // see ownTexts
	}
	if e != nil {
		r.claimed[e] = struct{}{}
	}
}

// see adds e if the client may not have it.
func (r *reconciling) see(e *table.Entry) {
	there, _ := r.sub.sees(e)
	if _, ok := r.claimed[e]; !ok && (there || r.table.misses(r.sub, e) || r.view.replaces(e.Name) && r.sub.means(e)) { // the removal must be sent, too (B34)
		r.names = append(r.names, e.Name)
	}
}
