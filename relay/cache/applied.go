package cache

import (
	"cmp"
	"time"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/trace"
)

// A table remembers when its last few updates arrived, and a subscription which of these concern
// it, as bits. So the age of what a client has just acknowledged is found without state per client.

// remembered is how many updates a table remembers, and a subscription has bits for.
const remembered = 16

// recentUpdate is an update that was applied.
type recentUpdate struct {
	gen   uint64 // newest generation after the update
	at    int64  // in ns since 1970
	trace *trace.Update
}

// recentUpdates are the last updates of a table. Guarded by its mu.
type recentUpdates struct {
	ring []recentUpdate
	n    uint64 // updates so far; each has its number, the first is 1
}

func (s *recentUpdates) add(one recentUpdate) {
	s.n++
	if len(s.ring) < remembered {
		s.ring = append(s.ring, one)
		return
	}
	s.ring[(s.n-1)%remembered] = one
}

// of returns the update with a number, which must still be remembered.
func (s *recentUpdates) of(number uint64) *recentUpdate { return &s.ring[(number-1)%remembered] }

// updateBits are the updates that concern a subscription.
type updateBits struct {
	newest uint64 // the number of the newest
	bits   uint16 // bit i for the one i before that
}

// add records the update with a number; repeating that is harmless.
func (c *updateBits) add(number uint64) {
	c.bits, c.newest = c.bits<<(number-c.newest)|1, number
}

// rememberUpdateLocked remembers the update that has just made changes changes, and whose
// subscriptions are in woken. Its time of arrival is when it began to be applied: every
// subscription that can see it had joined by then.
func (t *Table) rememberUpdateLocked(u *Update, began time.Time, changes int, woken map[*Subscription]struct{}) {
	if changes == 0 {
		return
	}
	one := recentUpdate{gen: t.store.Gen(), at: began.UnixNano()}
	if tracer := t.group.cache.cfg.Tracer; tracer != nil {
		clients := 0
		for s := range woken {
			if s.updates.newest == t.updates.n+1 {
				clients += s.count
			}
		}
		received := u.Received
		if received.IsZero() {
			received = began
		}
		one.trace = tracer.Start(trace.Source{
			Type: resource.TypeLabel(t.Type.URL), Key: string(t.group.Key), Version: cmp.Or(u.Version, t.store.All().Hex()), Received: received, Began: began, Parent: t.parentLocked(u, began),
		}, changes, clients)
	}
	t.updates.add(one)
	if last := t.history.newest(); one.trace != nil && last != nil && last.gen == one.gen {
		last.trace = one.trace.TraceID()
	}
}

// eachUpdateLocked yields the updates that concern s and end after generation from, up to to, the
// oldest first.
func (t *Table) eachUpdateLocked(s *Subscription, from, to uint64, yield func(*recentUpdate) bool) {
	n := t.updates.n
	for number := n - min(n, remembered) + 1; number <= n; number++ {
		if number > s.updates.newest {
			return
		}
		one := t.updates.of(number)
		if one.gen > from && one.gen <= to && s.updates.bits>>(s.updates.newest-number)&1 != 0 && !yield(one) {
			return
		}
	}
}

// ArrivedAt returns when the oldest update arrived that concerns w and ends after generation from,
// up to to; zero if none is remembered.
func (t *Table) ArrivedAt(w *Watcher, from, to uint64) (at time.Time) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if w.sub != nil {
		t.eachUpdateLocked(w.sub, from, to, func(s *recentUpdate) bool {
			at = time.Unix(0, s.at)
			return false
		})
	}
	return at
}

// TracedSince appends to buf those updates of [Table.ArrivedAt] that are traced and arrived after a
// moment.
func (t *Table) TracedSince(buf []*trace.Update, w *Watcher, from, to uint64, after time.Time) []*trace.Update {
	since := after.UnixNano()
	t.mu.RLock()
	defer t.mu.RUnlock()
	if w.sub != nil {
		t.eachUpdateLocked(w.sub, from, to, func(s *recentUpdate) bool {
			if s.trace.Flying() && s.at >= since {
				buf = append(buf, s.trace)
			}
			return true
		})
	}
	return buf
}

// UpdateRef is an update of a table, as it is remembered.
type UpdateRef struct {
	// Number counts the updates of the table, the first is 1; Gen is the generation that it ends
	// with.
	Number, Gen uint64
	At          time.Time
}

// Latest is the newest update of the table; ok is false if there was none.
func (t *Table) Latest() (a UpdateRef, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.updates.n == 0 {
		return UpdateRef{}, false
	}
	newest := t.updates.of(t.updates.n)
	return UpdateRef{Number: t.updates.n, Gen: newest.gen, At: time.Unix(0, newest.at)}, true
}

// Concerns reports whether the update with a number concerned w. It is false for updates that are
// no longer remembered.
func (t *Table) Concerns(w *Watcher, number uint64) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if w.sub == nil {
		return false
	}
	c := &w.sub.updates
	return number <= c.newest && c.newest-number < remembered && c.bits>>(c.newest-number)&1 != 0
}
