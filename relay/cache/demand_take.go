package cache

import (
	"cmp"
	"slices"
	"time"
)

// Demand is what a feed has to ask of its control plane for one type.
type Demand struct {
	// Table is where the answers belong.
	Table *Table
	// Wildcard says that there is interest in "*"; WildcardChanged that this is news.
	Wildcard, WildcardChanged bool
	// Names is everything that is asked for by name, sorted, if it was requested. All names are in
	// the spelling of the clients.
	Names []string
	// Subscribe and Unsubscribe are the changes since the last call. A name whose interest ended
	// and began again is subscribed again (C9). Names that a wildcard brought are unsubscribed with
	// it.
	Subscribe, Unsubscribe []string
	// Again are those of Subscribe that the control plane may believe the relay holds although it
	// does not, so that an unsubscribe has to come first. Twice are those of Again that need two of
	// them: their interest ended and began again before the control plane was sent either.
	Again, Twice []string
}

// takeDemand returns what changed since the last call, or with all the whole demand of f's stream;
// with names it fills in Names. ok reports whether there is anything to send to the control plane.
// There is nothing after the end of f, nor while other nodes have to be asked first (see first.go);
// after that it is everything.
//
// There may be very many names, so they are taken in steps. Interests that begin or end after the
// first step are left to the next call, so one sequence number says which names an answer includes:
// all that had interest at the first step and still have.
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
	many  bool   // so many names changed that their map takes much room
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
		leg.strays = nil // a new stream states what the relay holds (C8)
	}
	leg.dirtyAll, leg.askedAll = false, tk.out.Wildcard
	return tk
}

// over reports whether the feed has ended. Then another one may have begun, which asks for
// everything.
func (tk *take) over() bool { return tk.feed.ctx.Err() != nil }

// asks reports whether the stream asks for a name now.
func (tk *take) asks(w *want) bool { return w.askedOf(tk.feed.leg) && w.seq <= tk.seq }

// takeDirty takes the names that have changed. If everything is taken, only those matter that the
// control plane may believe the relay holds.
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

// again records that the control plane may believe the relay holds a name that is asked for.
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

// nameAll lists all names that the stream asks for.
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

// finish records that the control plane is asked.
func (tk *take) finish() (d Demand, ok bool) {
	t := tk.table
	t.mu.Lock()
	defer t.unlockAndSignal() // there may be ghost subscriptions to end
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
