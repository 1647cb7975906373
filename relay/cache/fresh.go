package cache

import "time"

// freshAfter is how long a new stream may leave open what it has to say of a type: an
// origin may have nothing to say.
const freshAfter = 5 * time.Second

// Fresh reports whether what a leg's tables hold is what its origin says now: there is
// a stream to it, which has answered.
func (f *Feed) Fresh() bool {
	if f.group.unreachable(1 << f.leg) {
		return false
	}
	for _, t := range f.group.Tables() {
		if t.awaits(f.leg) {
			return false
		}
	}
	return true
}

// Doubt notes that what a leg's tables hold may be old, until its origin has answered:
// it came from elsewhere, or the key was idle.
func (f *Feed) Doubt() {
	now := time.Now()
	for _, t := range f.group.Tables() {
		t.mu.Lock()
		if leg := &t.legs[f.leg]; t.gen > 0 {
			leg.doubted, leg.absent = true, nil
			if leg.wanted > 0 {
				t.unsettleLocked(f.leg, now)
			}
		}
		t.mu.Unlock()
	}
}

// unsettleLocked notes that a new stream has still to answer for a leg.
func (t *Table) unsettleLocked(by int, now time.Time) {
	leg := &t.legs[by]
	leg.confirmedTo = t.legAsOfLocked(by, now)
	leg.unsettled = now
}

// Borrow notes that the leg is kept in step with another node from now on, or with its
// origin. The stream that there was before is over, and there is none yet.
func (f *Feed) Borrow(is bool) {
	f.group.mu.Lock()
	l := &f.group.legs[f.leg]
	l.borrowed, l.asked, l.met = is, time.Time{}, nil
	now := time.Now()
	l.lose(now)
	if up := &l.upstream; up.Connected {
		up.Connected, up.Since = false, now
	}
	f.group.mu.Unlock()
	f.group.forgetAssumed(f.leg)
	f.group.signalNeeds()
}

// Doubtful reports whether another node that has something of the table may have newer
// content: what there is was restored, or is from before the key was idle, or from
// another node, or the origin was out of reach, and has not answered since. cut says
// that the origin is out of reach now. For restored and idle content the origin is
// told no versions, so it has to answer, however long that takes; an origin that was
// only out of reach may have nothing to say, so that its silence counts after
// [freshAfter]. So it does to a node that the origin was asked before (see [Feed.Unasked]).
func (t *Table) Doubtful(node string) (is, cut bool) {
	var wanted, old uint64 // sets of legs
	t.mu.RLock()
	for i := range t.legs {
		leg := &t.legs[i]
		if leg.wanted > 0 {
			wanted |= 1 << i
		}
		if leg.stale || leg.idled || !leg.unsettled.IsZero() && time.Since(leg.unsettled) < freshAfter {
			old |= 1 << i
		}
	}
	t.mu.RUnlock()
	g := t.group
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.legs {
		if wanted&(1<<i) == 0 {
			continue
		}
		down := g.legs[i].upstream.Err != nil
		is = is || down || g.legs[i].borrowed || old&(1<<i) != 0 || g.legs[i].unasked(node, time.Now())
		cut = cut || down
	}
	return is, cut
}

// awaits reports whether a leg's new stream has still to say something of the table.
func (t *Table) awaits(leg int) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	at := t.legs[leg].unsettled
	return t.legs[leg].held || !at.IsZero() && time.Since(at) < freshAfter || t.waitsForOthersLocked(leg, false)
}
