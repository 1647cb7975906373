package cache

import "xdsrelay/relay/resource"

// The bound on the names of a leg is one for all clients of a key. A client that asks for
// very many names, of which the origin has nothing, must not use it up for the others: its
// newest names give way to those of a client that asks for less.

// reasonYield is the error for clients that want a name which has given way.
const reasonYield = "the names of this key exceed origin.max_names_size; this one was dropped for those of clients with fewer names"

// yieldLocked makes room for bytes of names of a client, whose names take size altogether:
// from the subscription with most names, if that has more. Of its names those give way that
// nobody else wants and of which there is no resource, the newest first, and at least half
// of them, so that the search is not repeated for each new name. It reports whether there
// is enough room. t.mu must be held.
func (t *Table) yieldLocked(leg, bytes, size int) bool {
	var largest *Subscription
	for _, s := range t.subs {
		if s.firm != s.id && s.key.size() > size {
			largest, size = s, s.key.size()
		}
	}
	if largest == nil {
		return false
	}
	var names []string
	total := 0
	for n := range largest.names {
		w, e := t.wants[n], t.entries[n]
		if w.leg == leg && !w.shed && w.subs.len() == 1 && (e == nil || e.res == nil) {
			names, total = append(names, n), total+int(w.size)
		}
	}
	if total < bytes {
		largest.firm = largest.id
		return false
	}
	for _, n := range t.newestLocked(names, max(bytes, total/2)) {
		w := t.wants[n]
		if w.asked {
			t.dropLocked(&t.legs[leg], w, n)
			w.asked = false
		} else {
			delete(t.legs[leg].dirty, n)
		}
		t.shedLocked(w)
		t.noteLocked(newRemark(resource.NewError(w.name(n), resource.CodeResourceExhausted, reasonYield), leg), t.woken)
	}
	return true
}

// shedLocked notes that a leg is not asked for a name that is wanted.
func (t *Table) shedLocked(w *want) {
	w.shed = true
	t.shed++
	t.unmeasureLocked(&t.legs[w.leg], w)
}

// askAgainLocked asks for those of names that were shed: another client wants them now, for
// which there is room.
func (t *Table) askAgainLocked(names []string) {
	if t.shed == 0 {
		return
	}
	for _, n := range names {
		w := t.wants[n]
		if w == nil || !w.shed {
			continue
		}
		w.shed = false
		t.shed--
		t.seq++
		w.seq = t.seq
		t.forgetRemarksLocked(n)
		t.legs[w.leg].wanted-- // it counts already
		t.askForLocked(w, n)
	}
}
