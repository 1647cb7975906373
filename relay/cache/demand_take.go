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
//
// There may be very many names, so they are taken in steps. What begins to be wanted, or is
// dropped, after the first step is left to the next call, so one sequence number says which
// names an answer includes: all that were wanted at the first step and still are.
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
	tk := t.beginTakeLocked(f, all || leg.postponed)
	wanted, changed := leg.wanted, len(leg.dirty)
	t.mu.Unlock()
	if tk.all {
		changed = wanted
	}
	tk.out.Subscribe = make([]string, 0, min(wanted, changed))
	if names {
		tk.out.Names = make([]string, 0, wanted)
	}
	tk.takeDirty()
	if tk.all {
		tk.takeAll()
	}
	if names {
		tk.nameAll()
	}
	if d, ok = tk.finish(); !ok {
		return d, false
	}
	for _, list := range [][]string{d.Names, d.Subscribe, d.Unsubscribe, d.Again, d.Twice} {
		slices.Sort(list) // there may be very many
	}
	return d, true
}

// take is one call of takeDemand.
type take struct {
	table *Table
	feed  *Feed
	all   bool
	turn  uint32 // see tableLeg.turn
	seq   uint64 // of the newest name that is taken
	many  bool   // so many names changed that the map of these takes much room
	out   Demand
}

func (t *Table) beginTakeLocked(f *Feed, all bool) *take {
	leg := &t.legs[f.leg]
	leg.turn++
	leg.postponed = false
	tk := &take{table: t, feed: f, all: all, turn: leg.turn, seq: t.seq, many: len(leg.dirty) > spacious}
	tk.out = Demand{Table: t, Wildcard: t.wild.leg == f.leg && t.wild.demanded()}
	tk.out.WildcardChanged = leg.dirtyAll && (tk.out.Wildcard || leg.askedAll)
	if all {
		if leg.asked > 0 && leg.wanted > 0 && t.gen > 0 {
			t.unsettleLocked(f.leg, time.Now())
		}
		tk.out.WildcardChanged = tk.out.Wildcard
		leg.strays = nil // a new stream says what is held (C8)
	}
	leg.dirtyAll, leg.askedAll = false, tk.out.Wildcard
	return tk
}

// over reports whether the feed has ended. Then another one may have begun, which asks for
// everything.
func (tk *take) over() bool { return tk.feed.ctx.Err() != nil }

// asks reports whether the leg is asked for a name now.
func (tk *take) asks(w *want) bool { return w.askedOf(tk.feed.leg) && w.seq <= tk.seq }

// takeDirty takes the names that have changed. Of everything only those count that the origin
// may take for held.
func (tk *take) takeDirty() {
	t := tk.table
	leg := &t.legs[tk.feed.leg]
	for n, news := range inSteps(t, &t.mu, &leg.dirty) {
		if tk.over() {
			return
		}
		w := t.wants[n]
		wanted := w.askedOf(tk.feed.leg)
		if news.turn >= tk.turn || wanted && w.seq > tk.seq {
			continue
		}
		if wanted {
			tk.again(w, n, news)
		}
		if wanted && tk.all {
			continue // see takeAll
		}
		delete(leg.dirty, n)
		switch {
		case wanted:
			tk.subscribe(w, n)
		case !tk.all:
			tk.out.Unsubscribe = append(tk.out.Unsubscribe, cmp.Or(news.spelled, n))
			leg.droppedLocked(n, news, tk.out.Wildcard)
			leg.dropManyStraysLocked()
		}
	}
}

// again notes that the origin may take a name for held that is asked for.
func (tk *take) again(w *want, name string, news told) {
	if !w.asked {
		return
	}
	tk.out.Again = append(tk.out.Again, w.name(name))
	if !news.stray && tk.table.legs[tk.feed.leg].differences {
		tk.out.Twice = append(tk.out.Twice, w.name(name))
	}
}

func (tk *take) subscribe(w *want, name string) {
	tk.out.Subscribe = append(tk.out.Subscribe, w.name(name))
	w.asked = true
}

// takeAll takes all names.
func (tk *take) takeAll() {
	t := tk.table
	leg := &t.legs[tk.feed.leg]
	for n, w := range inSteps(t, &t.mu, &t.wants) {
		if tk.over() {
			return
		}
		if !tk.asks(w) {
			continue
		}
		tk.subscribe(w, n)
		if leg.dirty[n].turn < tk.turn {
			delete(leg.dirty, n)
		}
	}
}

// nameAll lists all names that are wanted of the leg.
func (tk *take) nameAll() {
	t := tk.table
	for n, w := range inSteps(t, t.mu.reading(), &t.wants) {
		if tk.over() {
			return
		}
		if tk.asks(w) {
			tk.out.Names = append(tk.out.Names, w.name(n))
		}
	}
}

// finish notes that the origin is asked.
func (tk *take) finish() (d Demand, ok bool) {
	t := tk.table
	t.mu.Lock()
	defer t.unlockAndSignal() // there may be strays to drop
	if tk.over() {
		return d, false
	}
	leg := &t.legs[tk.feed.leg]
	if tk.many {
		leg.dirty = fittedLocked(t, leg.dirty)
		t.moved++
	}
	leg.asked = tk.seq
	d = tk.out
	if !d.WildcardChanged && len(d.Subscribe)+len(d.Unsubscribe) == 0 {
		return d, false
	}
	if leg.stale && !t.group.unreachable(1<<tk.feed.leg) {
		leg.unsettled = time.Now()
	}
	return d, true
}
