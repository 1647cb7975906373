package cache

import (
	"cmp"
	"slices"
	"time"
)

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
	// Again are those of Subscribe that the origin may take for held although
	// they are not, so that they have to be dropped first. Twice are those of
	// Again that have to be dropped two times: they went and came back before
	// the origin was told.
	Again, Twice []string
}

// takeDemand returns what changed since the last call, or with all everything
// that is wanted of f's leg; with names it fills in Names. ok says whether there is
// anything to tell the origin; there is not once f has ended, and while other nodes are to be
// asked first (see first.go), after which it is everything.
func (t *Table) takeDemand(f *Feed, all, names bool) (d Demand, ok bool) {
	t.mu.Lock()
	if f.ctx.Err() != nil {
		t.mu.Unlock()
		return d, false
	}
	leg := &t.legs[f.leg]
	if t.waitsForOthersLocked(f.leg, all) {
		leg.postponed = leg.postponed || all
		t.mu.Unlock()
		f.group.signalNeeds()
		return d, false
	}
	all, leg.postponed = all || leg.postponed, false
	if d, ok = t.takeDemandLocked(f.leg, all); ok && names {
		d.Names = t.namesOfLocked(f.leg)
	}
	t.unlockAndSignal() // there may be strays to drop
	for _, list := range [][]string{d.Names, d.Subscribe, d.Unsubscribe, d.Again, d.Twice} {
		slices.Sort(list) // there may be very many
	}
	return d, ok
}

func (t *Table) takeDemandLocked(by int, all bool) (d Demand, ok bool) {
	leg := &t.legs[by]
	d = Demand{Table: t, Wildcard: t.wild.leg == by && t.wild.demanded()}
	d.WildcardChanged = leg.dirtyAll && (d.Wildcard || leg.askedAll)
	again := func(w *want, n string, news told) {
		if !w.asked {
			return
		}
		d.Again = append(d.Again, w.name(n))
		if !news.stray && leg.differences {
			d.Twice = append(d.Twice, w.name(n))
		}
	}
	if all {
		for n, news := range leg.dirty {
			if w := t.wants[n]; w.askedOf(by) {
				again(w, n, news)
			}
		}
		if leg.asked > 0 && leg.wanted > 0 && t.gen > 0 {
			leg.unsettled = time.Now()
		}
		d.WildcardChanged = d.Wildcard
		leg.dirty = emptied(leg.dirty)
		leg.strays = nil // a new stream says what is held (C8)
		d.Subscribe = make([]string, 0, leg.wanted)
		for n, w := range t.wants {
			if w.askedOf(by) {
				d.Subscribe = append(d.Subscribe, w.name(n))
				w.asked = true
			}
		}
	}
	d.Subscribe = slices.Grow(d.Subscribe, min(len(leg.dirty), leg.wanted))
	for n, news := range leg.dirty {
		if w := t.wants[n]; w.askedOf(by) {
			again(w, n, news)
			d.Subscribe = append(d.Subscribe, w.name(n))
			w.asked = true
		} else {
			d.Unsubscribe = append(d.Unsubscribe, cmp.Or(news.spelled, n))
			leg.droppedLocked(n, news, d.Wildcard)
		}
	}
	leg.dirtyAll, leg.askedAll = false, d.Wildcard
	leg.dirty = emptied(leg.dirty)
	leg.asked = t.seq
	if len(leg.strays) > maxStrays {
		leg.dropStraysLocked()
	}
	if !d.WildcardChanged && len(d.Subscribe)+len(d.Unsubscribe) == 0 {
		return d, false
	}
	if leg.stale && !t.group.unreachable(1<<by) {
		leg.unsettled = time.Now()
	}
	return d, true
}

// namesOfLocked are the names that are wanted of a leg.
func (t *Table) namesOfLocked(leg int) []string {
	names := make([]string, 0, t.legs[leg].wanted)
	for n, w := range t.wants {
		if w.askedOf(leg) {
			names = append(names, w.name(n))
		}
	}
	return names
}
