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

// Doubt notes that what a leg's tables hold may be old, until its origin has answered.
func (f *Feed) Doubt() {
	now := time.Now()
	for _, t := range f.group.Tables() {
		t.mu.Lock()
		if leg := &t.legs[f.leg]; leg.wanted > 0 && t.gen > 0 {
			leg.unsettled = now
		}
		t.mu.Unlock()
	}
}

// awaits reports whether a leg's new stream has still to say something of the table.
func (t *Table) awaits(leg int) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	at := t.legs[leg].unsettled
	return t.legs[leg].held || !at.IsZero() && time.Since(at) < freshAfter
}
