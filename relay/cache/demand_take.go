package cache

import (
	"slices"
	"time"

	"xdsrelay/relay/cache/demand"
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
// after that it is everything, with the changes for streams that were in use before.
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
	stream := &t.core.streams[f.stream]
	if t.core.waitsForOthers(f.stream, all) {
		if all {
			stream.postponed = forOnly
		}
		t.mu.Unlock()
		f.group.signalNeeds()
		return d, false
	}
	all = all || stream.postponed == forOnly
	second := !all && stream.postponed == forSecond
	stream.postponed = atOnce
	if all {
		t.core.beginStream(f.stream)
	}
	over := func() bool { return f.ctx.Err() != nil } // then another feed may have begun, which asks for everything
	take := t.core.demand.Take(f.stream, all, over)
	t.mu.Unlock()
	take.Reserve(names)
	t.core.inPauses(&t.mu, take.Changes)
	if all {
		t.core.inPauses(&t.mu, take.Whole)
	}
	if names {
		t.core.inPauses(t.mu.reading(), take.Names)
	}
	if ok = t.finishTake(f, take); ok {
		d = t.core.demandOf(take.Request())
	}
	if !second {
		return d, ok
	}
	whole, wanted := t.copyDemand(f, names)
	if !wanted {
		return d, ok
	}
	whole.WildcardChanged = whole.WildcardChanged || d.WildcardChanged
	whole.Unsubscribe, whole.Again, whole.Twice = d.Unsubscribe, d.Again, d.Twice // the other streams have them
	return whole, true
}

func (t *core) demandOf(r demand.Request) Demand {
	return Demand{
		Table: t.shell, Wildcard: r.Wildcard, WildcardChanged: r.WildcardChanged,
		Names: r.Names, Subscribe: r.Subscribe, Unsubscribe: r.Unsubscribe, Again: r.Again, Twice: r.Twice,
	}
}

// beginStream records that a new stream is about to be asked for everything.
func (t *core) beginStream(stream int) {
	t.streams[stream].unmentioned = nil
	if s := t.demand.Stream(stream); s.HasAsked() && s.Wanted() > 0 && t.store.Gen() > 0 {
		t.askedAgain(stream, time.Now())
	}
}

// copyDemand is takeDemand for a stream that is opened while others are in use, which have been asked.
// Changes that they were not sent stay pending for all of them.
func (t *Table) copyDemand(f *Feed, names bool) (d Demand, ok bool) {
	t.mu.Lock()
	switch {
	case f.ctx.Err() != nil:
		t.mu.Unlock()
		return d, false
	case t.core.waitsForOthers(f.stream, true):
		if stream := &t.core.streams[f.stream]; stream.postponed == atOnce {
			stream.postponed = forSecond
		}
		t.mu.Unlock()
		f.group.signalNeeds()
		return d, false
	}
	t.core.beginStream(f.stream)
	t.mu.Unlock()
	var r demand.Request
	t.core.inPauses(t.mu.reading(), func(step int, pause func()) { r = t.core.demand.Asked(f.stream, step, pause) })
	slices.Sort(r.Subscribe)
	if names {
		r.Names = r.Subscribe
	}
	if !r.Wildcard && len(r.Subscribe) == 0 {
		return d, false
	}
	t.mu.Lock()
	t.core.askedMore(f.stream)
	t.mu.Unlock()
	return t.core.demandOf(r), true
}

// askedMore records that a control plane is asked for more than it has answered.
func (t *core) askedMore(stream int) {
	if !t.group.unreachable(1 << stream) {
		t.streams[stream].confidence.AskedMore(time.Now())
	}
}

// finishTake records that the control plane is asked. It reports whether there is anything to send.
func (t *Table) finishTake(f *Feed, take *demand.Take[*Subscription]) bool {
	t.mu.Lock()
	defer t.unlockAndSignal() // there may be ghost subscriptions to end
	if f.ctx.Err() != nil || !take.Finish(t.group.cache.step) {
		return false
	}
	t.core.askedMore(f.stream)
	return true
}
