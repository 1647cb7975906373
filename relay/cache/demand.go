package cache

import (
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// want is the interest of all clients in one name, or in the wildcard.
type want struct {
	leg     int // which serves it, or Nobody
	subs    map[*Subscription]struct{}
	seq     uint64    // Table.seq when the interest began
	asked   bool      // the leg has been told
	expires time.Time // when nobody wants it any more: the end of its linger time
}

// demanded reports whether the origin should serve it: somebody wants it, or
// did a moment ago (K10).
func (w *want) demanded() bool { return len(w.subs) > 0 || !w.expires.IsZero() }

func (w *want) add(s *Subscription) {
	if w.subs == nil {
		w.subs = make(map[*Subscription]struct{}, 1)
	}
	w.subs[s] = struct{}{}
	w.expires = time.Time{}
}

// wantLocked notes that s asks for name, which the client spells otherwise
// unless spelled is "". t.mu must be held.
func (t *Table) wantLocked(s *Subscription, name, spelled string) {
	w := t.wants[name]
	if w == nil {
		t.seq++
		w = &want{leg: t.legOf(name), seq: t.seq}
		t.wants[name] = w
		t.bytes += entrySize(name)
		if resource.IsGlob(name) {
			t.globLocked(name)
		}
		t.askForLocked(w, name)
		if !w.asked {
			t.spellLocked(name, spelled)
		}
	}
	w.add(s)
	if w.leg == Nobody && t.entries[name] == nil {
		t.gen++
		t.setLocked(name, nil, "", t.gen, make(map[*Subscription]struct{})) // only s asks for it
	}
	t.dependLocked(s, w)
}

// askForLocked makes the leg of a new name ask for it.
func (t *Table) askForLocked(w *want, name string) {
	if w.leg == Nobody {
		return
	}
	leg := &t.legs[w.leg]
	_, w.asked = leg.dirty[name] // it may not have been told yet that the name was not wanted
	leg.dirty[name] = struct{}{}
	leg.wanted++
	if t.entries[name] == nil {
		leg.unanswered[name] = w
	}
}

func (t *Table) wantWildcardLocked(s *Subscription) {
	if !t.wild.demanded() {
		t.seq++
		t.wild = want{leg: t.wild.leg, seq: t.seq}
		if leg := t.wildLeg(); leg != nil {
			leg.dirtyAll = true
			leg.wanted++
		}
	}
	t.wild.add(s)
	t.dependLocked(s, &t.wild)
}

// wildLeg is the leg that serves the wildcard, nil if nobody does.
func (t *Table) wildLeg() *tableLeg {
	if t.wild.leg == Nobody {
		return nil
	}
	return &t.legs[t.wild.leg]
}

// forgetLocked notes that s asks for name no more. The name stays subscribed
// for the linger time, so that reconnecting clients find it (K10).
func (t *Table) forgetLocked(s *Subscription, name string) {
	w := t.wants[name]
	if w == nil {
		return
	}
	delete(w.subs, s)
	if len(w.subs) == 0 {
		w.expires = time.Now().Add(t.group.cache.cfg.Linger)
		t.group.lingerFrom(w.expires)
	}
}

func (t *Table) forgetWildcardLocked(s *Subscription) {
	delete(t.wild.subs, s)
	if len(t.wild.subs) == 0 {
		t.wild.expires = time.Now().Add(t.group.cache.cfg.Linger)
		t.group.lingerFrom(t.wild.expires)
	}
}

// expireLocked ends the demand whose linger time is over at now, and drops
// what nobody sees any more. It returns when to look again, zero for never.
func (t *Table) expireLocked(now time.Time) (next time.Time) {
	later := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	over := func(w *want) bool {
		if w.expires.IsZero() {
			return false
		}
		if w.expires.After(now) {
			later(w.expires)
			return false
		}
		return true
	}
	wild := t.wildLeg()
	drop := func(e *entry) {
		t.dropUnwantedLocked(e)
		if wild != nil && wild.askedAll && e.res != nil && t.entries[e.name] == nil {
			// go-control-plane takes it for held until its name is dropped, too.
			t.dropBroughtLocked(wild, e)
		}
	}
	if over(&t.wild) {
		t.wild = want{leg: t.wild.leg}
		if wild != nil {
			wild.dirtyAll = true
			wild.wanted--
		}
		for _, e := range t.entries {
			drop(e)
		}
	}
	for name, w := range t.wants {
		if !over(w) {
			continue
		}
		delete(t.wants, name)
		t.bytes -= entrySize(name)
		t.stopAskingLocked(w, name)
		t.eachOfLocked(name, drop)
		if g := t.globs[name]; g != nil {
			t.dropGlobLocked(g)
		}
	}
	return next
}

// dropBroughtLocked makes a leg unsubscribe a name that it was not asked for.
func (t *Table) dropBroughtLocked(leg *tableLeg, e *entry) {
	if _, asked := leg.dirty[e.name]; asked {
		return
	}
	leg.dirty[e.name] = struct{}{}
	if e.res.Name != e.name {
		t.spellLocked(e.name, e.res.Name)
	}
}

// stopAskingLocked undoes askForLocked.
func (t *Table) stopAskingLocked(w *want, name string) {
	if w.leg == Nobody {
		delete(t.spelled, name)
		return
	}
	leg := &t.legs[w.leg]
	delete(leg.unanswered, name)
	leg.wanted--
	if w.asked {
		leg.dirty[name] = struct{}{}
	} else {
		delete(leg.dirty, name)
		delete(t.spelled, name)
	}
}

// dropUnwantedLocked forgets an entry that no demand covers any more.
func (t *Table) dropUnwantedLocked(e *entry) {
	if t.coveredLocked(e.name, e.former) || e.res != nil && t.coveredLocked(e.name, e.res.Aliases) {
		return
	}
	if e.res != nil {
		t.legs[0].version = "" // the table is no longer what the origin sent
	}
	t.eraseLocked(e)
}

// coveredLocked reports whether somebody asked for name (C10).
func (t *Table) coveredLocked(name string, aliases []string) bool {
	if t.wild.demanded() || t.wants[name] != nil {
		return true
	}
	return slices.ContainsFunc(aliases, func(a string) bool { return t.wants[a] != nil }) || t.globWantedLocked(name)
}

// Demand is what a feed has to ask of its origin for one type.
type Demand struct {
	// Table is where the answers belong.
	Table *Table
	// Wildcard says that "*" is wanted; WildcardChanged that this is news.
	Wildcard, WildcardChanged bool
	// Names is everything wanted by name, sorted, where it was asked for. All
	// names are spelled as clients do.
	Names []string
	// Subscribe and Unsubscribe are the changes since the last call; a name
	// that went and came back is subscribed again (C9). Those that a wildcard
	// brought are unsubscribed with it.
	Subscribe, Unsubscribe []string
	// Again are those of Subscribe that went and came back, so that the origin
	// may take them for held although they are not.
	Again []string
}

// takeDemand returns what changed since the last call, or with all everything
// that is wanted of f's leg; with names it fills in Names. ok says whether there is
// anything to tell the origin; there is not once f has ended.
func (t *Table) takeDemand(f *Feed, all, names bool) (d Demand, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.ctx.Err() != nil {
		return d, false
	}
	leg := &t.legs[f.leg]
	d = Demand{Table: t, Wildcard: t.wild.leg == f.leg && t.wild.demanded()}
	d.WildcardChanged = leg.dirtyAll && (d.Wildcard || leg.askedAll)
	for n := range leg.dirty {
		if w := t.wants[n]; w != nil && w.asked {
			d.Again = append(d.Again, t.askedAsLocked(n))
		}
	}
	if all {
		d.WildcardChanged = d.Wildcard
		t.forgetDirtyLocked(leg)
		for n, w := range t.wants {
			if w.leg == f.leg {
				leg.dirty[n] = struct{}{}
			}
		}
	}
	for n := range leg.dirty {
		if w := t.wants[n]; w != nil {
			d.Subscribe = append(d.Subscribe, t.askedAsLocked(n))
			w.asked = true
		} else {
			d.Unsubscribe = append(d.Unsubscribe, t.askedAsLocked(n))
		}
	}
	leg.dirtyAll, leg.askedAll = false, d.Wildcard
	t.forgetDirtyLocked(leg)
	leg.asked = t.seq
	if !d.WildcardChanged && len(d.Subscribe)+len(d.Unsubscribe) == 0 {
		return d, false
	}
	if names {
		d.Names = t.namesOfLocked(f.leg)
	}
	slices.Sort(d.Subscribe)
	slices.Sort(d.Unsubscribe)
	slices.Sort(d.Again)
	return d, true
}

// forgetDirtyLocked forgets what a leg has to be told, with the spelling of names
// that it is not asked for any more.
func (t *Table) forgetDirtyLocked(leg *tableLeg) {
	if len(t.spelled) > 0 {
		for n := range leg.dirty {
			if t.wants[n] == nil {
				delete(t.spelled, n)
			}
		}
	}
	clear(leg.dirty)
}

// namesOfLocked are the names that are wanted of a leg, sorted.
func (t *Table) namesOfLocked(leg int) []string {
	names := make([]string, 0, t.legs[leg].wanted)
	for n, w := range t.wants {
		if w.leg == leg {
			names = append(names, t.askedAsLocked(n))
		}
	}
	slices.Sort(names)
	return names
}
