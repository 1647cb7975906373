package cache

import (
	"errors"
	"math"
	"slices"
	"strings"

	"xdsrelay/relay/resource"
)

// ErrTooOld says that a client is so far behind that the removals it missed
// are no longer known. It has to start anew on another stream.
var ErrTooOld = errors.New("too far behind: removals since the client's last response are no longer known")

// Position is what a client has of a table: all changes up to generation Gen,
// and all removals up to generation Removed, which lags behind while removals
// are held back for make-before-break (E2).
type Position struct{ Gen, Removed uint64 }

// Start is the position of a client that holds nothing.
var Start = Position{Gen: 0, Removed: math.MaxUint64}

// Names is an immutable set of names to be told whatever the position. Digest
// tells sets apart.
type Names struct {
	List   []string
	Digest resource.Digest
}

// NewNames returns the set of names; the slice must not be changed afterwards.
// An empty set is nil.
func NewNames(names []string) *Names {
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	n := &Names{List: slices.Compact(names)}
	n.Digest = resource.NamesDigest(n.List)
	return n
}

// With returns the union of n and o; either may be nil.
func (n *Names) With(o *Names) *Names {
	switch {
	case n == nil || n == o:
		return o
	case o == nil || o.Digest == n.Digest:
		return n
	}
	// Mostly o is short: merging leaves out the sorting.
	list, rest := make([]string, 0, len(n.List)+len(o.List)), n.List
	for _, name := range o.List {
		at, dup := slices.BinarySearch(rest, name)
		list = append(list, rest[:at]...)
		if rest = rest[at:]; !dup {
			list = append(list, name)
		}
	}
	list = append(list, rest...)
	return &Names{List: list, Digest: resource.NamesDigest(list)}
}

// Len is the number of names.
func (n *Names) Len() int { return len(n.list()) }

// Query asks what a client has to be told.
type Query struct {
	Since Position
	// Force are names to be told even if unchanged, and to be reported as
	// removed where they do not exist or are not subscribed.
	Force *Names
	// Refresh are names to be told even if unchanged, as far as they are
	// subscribed and exist (E3).
	Refresh *Names
	// Whole asks for everything that the subscription sees, if there is
	// anything to tell at all: the full state of a SotW response.
	Whole bool
	// KeepRemoved holds removals back: they are not reported, and Whole
	// includes what was removed since the position (E5). It is for clients
	// that were told something before.
	KeepRemoved bool
}

// Changes is the answer to a Query.
type Changes struct {
	// To is the client's position once it has been told.
	To Position
	// Resources are in the order of their last change, or of their names.
	Resources []*resource.Resource
	// News are those of Resources that changed or were forced; with Whole the
	// others are there for completeness.
	News []*resource.Resource
	// Removed are names that do not exist, sorted. Withheld are forced names
	// of this kind that KeepRemoved holds back.
	Removed  []string
	Withheld *Names
	// Version stands for all that the subscription sees (D7). Derived says
	// that it was computed from content, so that equality proves equal state.
	Version string
	Derived bool
	// Source is the origin's control_plane.identifier.
	Source string
	// Known says that the origin has answered for all that the subscription
	// asks for: what is not here does not exist (K13).
	Known bool
}

// Empty reports whether there is nothing to tell.
func (c *Changes) Empty() bool { return len(c.Resources)+len(c.Removed) == 0 }

// Changes answers q for the subscription of w. It costs as much as there are
// changes since the position (or names in the subscription, if these are
// fewer), plus the forced names; with Whole as much as the subscription sees.
func (t *Table) Changes(w *Watcher, q Query) (Changes, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := w.sub
	if s == nil {
		return Changes{To: q.Since}, nil
	}
	c := Changes{To: Position{s.gen, s.gen}, Source: t.source}
	if q.KeepRemoved {
		c.To.Removed = q.Since.Removed
	}
	c.Known = t.knownLocked(s)
	if s.key.wildcard && q.Since.Removed < t.floor {
		return c, ErrTooOld
	}
	p := picker{table: t, sub: s, query: q, out: &c}
	p.pickSince()
	if q.Force != nil || q.Refresh != nil {
		p.pickForced()
	}
	c.News = c.Resources
	if q.Whole && !c.Empty() {
		c.Resources = nil
		p.pickWhole()
	}
	slices.Sort(c.Removed)
	c.Version, c.Derived = t.versionLocked(s, p.leftover)
	return c, nil
}

// knownLocked reports whether the origin has answered for all that s asks for.
func (t *Table) knownLocked(s *Subscription) bool {
	if s.seq <= t.answered {
		return true
	}
	if s.key.wildcard && !t.wildKnownLocked() {
		return false
	}
	for n := range s.names {
		if w := t.wants[n]; w != nil && w.seq > t.answered && t.lookupLocked(n) == nil {
			return false
		}
	}
	return true
}

func (t *Table) wildKnownLocked() bool { return t.wild.demanded() && t.wild.seq <= t.answered }

// versionLocked is the version of all that s sees (D7): the origin's own where
// that is exactly what the origin sent, and a digest otherwise. leftover are
// resources that s is still shown beyond the table's state.
func (t *Table) versionLocked(s *Subscription, leftover resource.Digest) (version string, derived bool) {
	digest, live := t.digest, t.live
	if !s.key.wildcard {
		digest, live = s.digest, s.live
	}
	if t.version != "" && live == t.live && leftover == (resource.Digest{}) {
		return t.version, false
	}
	return digest.Add(leftover).Hex(), true
}

// picker collects the Changes of one subscription.
type picker struct {
	table *Table
	sub   *Subscription
	query Query
	out   *Changes
	// leftover is the digest of resources that are gone but still shown.
	leftover resource.Digest
}

// pickSince walks the table from the newest change back to the position, or
// the names of the subscription where these are fewer.
func (p *picker) pickSince() {
	oldest := min(p.query.Since.Gen, p.query.Since.Removed)
	if p.query.KeepRemoved {
		oldest = p.query.Since.Gen
	}
	steps := 0
	for e := p.table.changes.newest; e != nil && e.gen > oldest; e = e.changes.next {
		if steps++; steps > len(p.sub.names)+8 && !p.sub.key.wildcard {
			p.out.Resources, p.out.Removed = nil, nil
			p.pickNames()
			return
		}
		if p.sub.seesLocked(e) {
			p.pick(e)
		}
	}
	slices.Reverse(p.out.Resources)
}

func (p *picker) pickNames() {
	seen := make(map[*entry]struct{})
	for name := range p.sub.names {
		if e := p.table.lookupLocked(name); e != nil {
			if _, twice := seen[e]; !twice {
				seen[e] = struct{}{}
				p.pick(e)
			}
		}
	}
	sortByName(p.out.Resources)
}

// pick adds e if it changed since the position.
func (p *picker) pick(e *entry) {
	since := p.query.Since
	switch {
	case e.res != nil:
		if e.gen > since.Gen {
			p.out.Resources = append(p.out.Resources, e.res)
		}
	case p.query.KeepRemoved:
	case e.gen > since.Removed, since.Gen == 0 && p.sub.namesLocked(e): // B34
		p.out.Removed = append(p.out.Removed, e.name)
	}
}

// pickForced adds the forced names: what they are, or that they are not. A
// name of which nothing is known yet is left out; it will come as a change
// (K13).
func (p *picker) pickForced() {
	var withheld []string
	have := make(map[string]struct{}, len(p.out.Resources)+len(p.out.Removed))
	for _, r := range p.out.Resources {
		have[r.Name] = struct{}{}
	}
	for _, n := range p.out.Removed {
		have[n] = struct{}{}
	}
	for _, name := range p.query.Refresh.list() {
		e := p.table.lookupLocked(name)
		if e != nil && e.res != nil && p.sub.seesLocked(e) {
			if _, dup := have[e.name]; !dup { // B29
				have[e.name] = struct{}{}
				p.out.Resources = append(p.out.Resources, e.res)
			}
		}
	}
	for _, name := range p.query.Force.list() {
		e := p.table.lookupLocked(name)
		covered := p.sub.key.wildcard || e != nil && p.sub.namesLocked(e)
		if e == nil {
			_, covered = p.sub.names[name]
		}
		if e != nil && e.res != nil && covered {
			if _, dup := have[e.name]; !dup { // B29
				have[e.name] = struct{}{}
				p.out.Resources = append(p.out.Resources, e.res)
			}
			continue
		}
		gone := e != nil && e.res == nil || !covered || p.sub.key.wildcard && p.table.wildKnownLocked()
		if _, dup := have[name]; !gone || dup {
			continue
		}
		have[name] = struct{}{}
		if p.query.KeepRemoved {
			withheld = append(withheld, name)
		} else {
			p.out.Removed = append(p.out.Removed, name)
		}
	}
	p.out.Withheld = NewNames(withheld)
}

// pickWhole replaces what was picked by everything that the subscription sees.
func (p *picker) pickWhole() {
	if p.sub.key.wildcard {
		for e := p.table.changes.oldest; e != nil; e = e.changes.prev {
			p.pickState(e)
		}
		return
	}
	seen := make(map[*entry]struct{}, len(p.sub.names))
	for name := range p.sub.names {
		if e := p.table.lookupLocked(name); e != nil {
			if _, twice := seen[e]; !twice {
				seen[e] = struct{}{}
				p.pickState(e)
			}
		}
	}
	sortByName(p.out.Resources)
}

// pickState adds what e is now, or was before a removal that is held back.
func (p *picker) pickState(e *entry) {
	switch {
	case e.res != nil:
		p.out.Resources = append(p.out.Resources, e.res)
	case p.query.KeepRemoved && e.last != nil && e.gen > p.query.Since.Removed:
		p.out.Resources = append(p.out.Resources, e.last)
		p.leftover = p.leftover.Add(e.last.Member())
	}
}

// Without returns n without names; nil if nothing is left.
func (n *Names) Without(names []string) *Names {
	if n == nil || len(names) == 0 {
		return n
	}
	drop := make(map[string]struct{}, len(names))
	for _, name := range names {
		drop[name] = struct{}{}
	}
	kept := slices.DeleteFunc(slices.Clone(n.List), func(name string) bool {
		_, ok := drop[name]
		return ok
	})
	if len(kept) == len(n.List) {
		return n
	}
	return NewNames(kept)
}

func (n *Names) list() []string {
	if n == nil {
		return nil
	}
	return n.List
}

func sortByName(rs []*resource.Resource) {
	slices.SortFunc(rs, func(a, b *resource.Resource) int { return strings.Compare(a.Name, b.Name) })
}
