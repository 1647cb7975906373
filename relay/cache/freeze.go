package cache

import (
	"maps"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache/gate"
	"xdsrelay/relay/resource"
)

// Freeze is an order of an operator that clients of a key see no change, except for what passes (see
// gate.go), until the order ends.
type Freeze struct {
	Reason string    `json:"reason"`
	By     string    `json:"by,omitempty"` // who gave the order, as far as it is known
	Since  time.Time `json:"since"`
}

// Undone is an order of an operator by which clients of a key are back at an earlier revision. It ends
// when the control plane sends something else instead of what was undone, or with the operator's
// consent.
type Undone struct {
	Freeze
	// Revisions are what was undone, the newest first; see [Revision].
	Revisions []string  `json:"revisions"`
	Refused   []Refused `json:"refused"`

	oldest uint64 // the number of the first update that was undone; see [Past.Number]
}

// Refused is what the control plane had sent for one name, and was undone.
type Refused struct {
	TypeURL string `json:"type_url"`
	Stream  string `json:"stream"` // see [OriginStream.String]
	Name    string `json:"name"`   // canonical
	// Digest identifies name and content; empty if the control plane had removed the resource.
	Digest string `json:"digest,omitempty"`
}

// Orders are all orders of operators about what clients see. They may outlive the process.
type Orders struct {
	All    *Freeze                     `json:"all,omitempty"`
	Keys   map[aggregation.Key]*Freeze `json:"keys,omitempty"`
	Undone map[aggregation.Key]*Undone `json:"undone,omitempty"`
}

// freezes are the orders for all keys, also those without a group. Cache.mu guards them; what they
// point to is not changed.
type freezes struct {
	all    *Freeze
	keys   map[aggregation.Key]*Freeze
	undone map[aggregation.Key]*Undone
}

// of returns the order for a key, nil for none.
func (f *freezes) of(key aggregation.Key) *Freeze {
	if one := f.keys[key]; one != nil {
		return one
	}
	return f.all
}

// Orders returns the orders that are in force, which must not be changed.
func (c *Cache) Orders() Orders {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Orders{c.freezes.all, maps.Clone(c.freezes.keys), maps.Clone(c.freezes.undone)}
}

// Obey puts orders of an earlier process into force, before there is a group.
func (c *Cache) Obey(o Orders) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.freezes = freezes{o.All, o.Keys, o.Undone}
}

// Freeze freezes a key, or replaces the order that does. The key needs no group: a later one begins
// frozen.
func (c *Cache) Freeze(key aggregation.Key, f Freeze) {
	c.mu.Lock()
	if c.freezes.keys == nil {
		c.freezes.keys = make(map[aggregation.Key]*Freeze)
	}
	c.freezes.keys[key] = &f
	g := c.groups[key]
	c.mu.Unlock()
	if g != nil {
		g.setFreeze(&f)
	}
}

// FreezeAll freezes all keys, also those that are new to this node later.
func (c *Cache) FreezeAll(f Freeze) {
	c.mu.Lock()
	c.freezes.all = &f
	groups := maps.Clone(c.groups)
	for key := range c.freezes.keys {
		delete(groups, key)
	}
	c.mu.Unlock()
	for _, g := range groups {
		g.setFreeze(&f)
	}
}

// Unfreeze ends the freeze of a key, and what follows from an undone revision: clients get what was
// held back, as one update of each type. It returns the number of changes. While all keys are frozen,
// the key stays so.
func (c *Cache) Unfreeze(key aggregation.Key) (changes int) {
	c.mu.Lock()
	delete(c.freezes.keys, key)
	if c.freezes.all == nil {
		delete(c.freezes.undone, key)
	}
	g, all := c.groups[key], c.freezes.all
	c.mu.Unlock()
	if g == nil {
		return 0
	}
	return g.thaw(all)
}

// UnfreezeAll ends the freeze of all keys, but not that of single ones, nor what follows from undone
// revisions. It returns the number of changes.
func (c *Cache) UnfreezeAll() (changes int) {
	c.mu.Lock()
	c.freezes.all = nil
	groups := maps.Clone(c.groups)
	for key := range c.freezes.keys {
		delete(groups, key)
	}
	c.mu.Unlock()
	for _, g := range groups {
		g.mu.Lock()
		frozen, undone := g.freeze != nil, g.undone != nil
		g.freeze = nil
		g.mu.Unlock()
		switch {
		case undone:
			g.judgeUndone()
		case frozen:
			changes += g.releaseGates(CauseUnfrozen)
		}
	}
	return changes
}

// heldLocked reports whether an order holds changes back. g.mu must be held.
func (g *Group) heldLocked() bool { return g.freeze != nil || g.undone != nil }

// gatesLocked returns which types have gates. g.mu must be held.
func (g *Group) gatesLocked() gateSet { return gateSet{g.heldLocked(), g.governor} }

// gates is gatesLocked. It may be called with a table's mu held.
func (g *Group) gates() gateSet {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gatesLocked()
}

// setFreeze freezes the group.
func (g *Group) setFreeze(f *Freeze) {
	g.mu.Lock()
	g.freeze = f
	g.mu.Unlock()
	g.closeGates()
}

// closeGates gives all tables gates; later ones begin with some.
func (g *Group) closeGates() {
	for _, t := range g.Tables() {
		t.mu.Lock()
		t.core.close(g.gates())
		t.mu.Unlock()
	}
}

// thaw ends what holds the group, and applies what was held back: in the order E1, and the clients are
// woken once all types are applied. A freeze that is still in force replaces the present one.
func (g *Group) thaw(still *Freeze) (changes int) {
	g.mu.Lock()
	held := g.heldLocked()
	g.freeze = still
	if still == nil {
		g.undone, g.settleBegan = nil, time.Time{}
	}
	g.mu.Unlock()
	if !held || still != nil {
		return 0
	}
	return g.releaseGates(CauseUnfrozen)
}

// releaseGates opens the gates of all tables that need none any more.
func (g *Group) releaseGates(cause Cause) (changes int) {
	return g.applyAll(func(t *Table, now time.Time) int {
		if has, _ := g.gates().has(t.Type.URL); has {
			return 0
		}
		return t.core.releaseGates(now, cause)
	})
}

// applyAll calls one for each table, which is locked, in the order E1. Clients are woken once it was
// called for all. It returns the sum of the results.
func (g *Group) applyAll(one func(t *Table, now time.Time) int) (changes int) {
	now := time.Now()
	var woken []*Subscription
	var parents []*resource.Type
	for _, t := range g.Tables() {
		t.mu.Lock()
		changes += one(t, now)
		t.core.recheckHead(t.core.woken)
		woken = append(woken, t.core.takeWoken()...)
		holds := t.core.takeHolds()
		t.unlockAndSignal()
		if holds {
			parents = append(parents, t.Type)
		}
	}
	g.changed()
	if len(woken) > 0 {
		g.cache.cfg.Wake(woken)
	}
	for _, typ := range parents {
		g.restoreChildren(typ)
	}
	if changes > 0 {
		g.changesNoted(now)
	}
	return changes
}

// Gate returns what the gates of the group do, and the orders because of which they do: nil for none.
func (g *Group) Gate() (state gate.State, freeze *Freeze, undone *Undone) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.freeze != nil:
		state = gate.Frozen
	case g.undone != nil:
		state = gate.Undone
	case g.governor != nil:
		state = gate.Governed
	case g.observer != nil:
		state = gate.Observed
	}
	return state, g.freeze, g.undone
}

// Pending is what is held back of a type.
type Pending struct {
	TypeURL string `json:"type_url"`
	// Added, Changed and Removed are how many resources clients will get, get changed, and lose.
	Added   int `json:"added"`
	Changed int `json:"changed"`
	Removed int `json:"removed"`
	// Names are those of the first of them.
	Names []string `json:"names,omitempty"`
}

// maxPendingNames bounds Pending.Names.
const maxPendingNames = 100

// Pending returns what is held back, for each type with something.
func (g *Group) Pending() (all []Pending) {
	for _, t := range g.Tables() {
		t.mu.RLock()
		one := Pending{TypeURL: t.Type.URL}
		for by := range t.core.streams {
			if g := t.core.streams[by].gate; g != nil {
				for name, c := range g.All() {
					one.add(name, c)
				}
			}
		}
		t.mu.RUnlock()
		if one.Added+one.Changed+one.Removed > 0 {
			one.sort()
			all = append(all, one)
		}
	}
	return all
}

func (p *Pending) add(name string, c gate.Change) {
	switch {
	case c.Stable == nil:
		p.Added++
	case c.Sent == nil:
		p.Removed++
	default:
		p.Changed++
	}
	p.Names = append(p.Names, name)
}

func (p *Pending) sort() {
	slices.Sort(p.Names)
	if len(p.Names) > maxPendingNames {
		p.Names = slices.Clone(p.Names[:maxPendingNames])
	}
}

// HeldType is what is held back of a type.
type HeldType struct {
	Type    *resource.Type
	Changes []ResourceChange // by name
}

// HeldChanges returns what is held back, from what clients see to what the control plane has sent.
func (g *Group) HeldChanges() (all []HeldType) {
	moment := func(r *resource.Resource) Moment {
		if r == nil {
			return Moment{Known: KnownAbsent}
		}
		return Moment{KnownContent, r}
	}
	for _, t := range g.Tables() {
		one := HeldType{Type: t.Type}
		t.mu.RLock()
		for by := range t.core.streams {
			if g := t.core.streams[by].gate; g != nil {
				for name, c := range g.All() {
					one.Changes = append(one.Changes, ResourceChange{name, moment(c.Stable), moment(c.Sent)})
				}
			}
		}
		t.mu.RUnlock()
		if len(one.Changes) > 0 {
			slices.SortFunc(one.Changes, func(a, b ResourceChange) int { return strings.Compare(a.Name, b.Name) })
			all = append(all, one)
		}
	}
	return all
}
