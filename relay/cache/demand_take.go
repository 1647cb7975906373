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
	stream := &t.streams[f.stream]
	if t.waitsForOthersLocked(f.stream, all) {
		stream.postponed = stream.postponed || all
		t.mu.Unlock()
		f.group.signalNeeds()
		return d, false
	}
	tk := t.beginTakeLocked(f, all || stream.postponed)
	wanted, changed := stream.wanted, len(stream.dirty)
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
	table   *Table
	feed    *Feed
	all     bool
	takeSeq uint32 // see typeStreamState.takeSeq
	seq     uint64 // of the newest name that is taken
	many    bool   // so many names changed that their map takes much room
	out     Demand
}

func (t *Table) beginTakeLocked(f *Feed, all bool) *take {
	stream := &t.streams[f.stream]
	stream.takeSeq++
	stream.postponed = false
	tk := &take{table: t, feed: f, all: all, takeSeq: stream.takeSeq, seq: t.seq, many: len(stream.dirty) > spacious}
	tk.out = Demand{Table: t, Wildcard: t.wild.stream == f.stream && t.wild.demanded()}
	tk.out.WildcardChanged = stream.dirtyAll && (tk.out.Wildcard || stream.askedAll)
	if all {
		if stream.asked > 0 && stream.wanted > 0 && t.store.Gen() > 0 {
			t.askedAgainLocked(f.stream, time.Now())
		}
		tk.out.WildcardChanged = tk.out.Wildcard
		stream.ghosts = nil // a new stream states what the relay holds (C8)
	}
	stream.dirtyAll, stream.askedAll = false, tk.out.Wildcard
	return tk
}

// over reports whether the feed has ended. Then another one may have begun, which asks for
// everything.
func (tk *take) over() bool { return tk.feed.ctx.Err() != nil }

// asks reports whether the stream asks for a name now.
func (tk *take) asks(w *interest) bool { return w.askedOf(tk.feed.stream) && w.seq <= tk.seq }

// takeDirty takes the names that have changed. If everything is taken, only those matter that the
// control plane may believe the relay holds.
func (tk *take) takeDirty() {
	t := tk.table
	stream := &t.streams[tk.feed.stream]
	for n, news := range inSteps(t, &t.mu, &stream.dirty) {
		if tk.over() {
			return
		}
		w := t.interests[n]
		wanted := w.askedOf(tk.feed.stream)
		if news.takeSeq >= tk.takeSeq || wanted && w.seq > tk.seq {
			continue
		}
		if wanted {
			tk.again(w, n, news)
		}
		if wanted && tk.all {
			continue // see takeAll
		}
		delete(stream.dirty, n)
		switch {
		case wanted:
			tk.subscribe(w, n)
		case !tk.all:
			tk.out.Unsubscribe = append(tk.out.Unsubscribe, cmp.Or(news.spelled, n))
			stream.droppedLocked(n, news, tk.out.Wildcard)
			stream.dropManyGhostsLocked()
		}
	}
}

// again records that the control plane may believe the relay holds a name that is asked for.
func (tk *take) again(w *interest, name string, news demandChange) {
	if !w.asked {
		return
	}
	tk.out.Again = append(tk.out.Again, w.name(name))
	if !news.ghost && tk.table.streams[tk.feed.stream].differences {
		tk.out.Twice = append(tk.out.Twice, w.name(name))
	}
}

func (tk *take) subscribe(w *interest, name string) {
	tk.out.Subscribe = append(tk.out.Subscribe, w.name(name))
	w.asked = true
}

// takeAll takes all names.
func (tk *take) takeAll() {
	t := tk.table
	stream := &t.streams[tk.feed.stream]
	for n, w := range inSteps(t, &t.mu, &t.interests) {
		if tk.over() {
			return
		}
		if !tk.asks(w) {
			continue
		}
		tk.subscribe(w, n)
		if stream.dirty[n].takeSeq < tk.takeSeq {
			delete(stream.dirty, n)
		}
	}
}

// nameAll lists all names that the stream asks for.
func (tk *take) nameAll() {
	t := tk.table
	for n, w := range inSteps(t, t.mu.reading(), &t.interests) {
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
	stream := &t.streams[tk.feed.stream]
	if tk.many {
		stream.dirty = fittedLocked(t, stream.dirty)
		t.moved++
	}
	stream.asked = tk.seq
	d = tk.out
	if !d.WildcardChanged && len(d.Subscribe)+len(d.Unsubscribe) == 0 {
		return d, false
	}
	if !t.group.unreachable(1 << tk.feed.stream) {
		stream.confidence.AskedMore(time.Now())
	}
	return d, true
}
