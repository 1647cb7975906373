package cache

import (
	"cmp"
	"time"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/trace"
)

// A table remembers when its last few updates came, and a subscription which of these
// concern it, as bits. So the age of what a client has just acknowledged is found
// without anything that is kept per client.

// remembered is how many updates a table remembers, and a subscription has bits for.
const remembered = 16

// stamp is an update that was applied.
type stamp struct {
	gen   uint64 // the newest then
	at    int64  // in ns since 1970
	trace *trace.Update
}

// stamps are the last updates of a table. Guarded by its mu.
type stamps struct {
	ring []stamp
	n    uint64 // updates by now, each with its number, the first with 1
}

func (s *stamps) add(one stamp) {
	s.n++
	if len(s.ring) < remembered {
		s.ring = append(s.ring, one)
		return
	}
	s.ring[(s.n-1)%remembered] = one
}

// of returns the update of a number that is remembered.
func (s *stamps) of(number uint64) *stamp { return &s.ring[(number-1)%remembered] }

// concerns are the updates that concern a subscription.
type concerns struct {
	newest uint64 // the number of the newest
	bits   uint16 // bit i for the one i before that
}

// add notes the update of a number, again without harm.
func (c *concerns) add(number uint64) {
	c.bits, c.newest = c.bits<<(number-c.newest)|1, number
}

// stampLocked remembers the update that has just made so many changes, and whose
// subscriptions are in woken. It came when it began to be applied: whoever can see it
// had joined by then.
func (t *Table) stampLocked(u *Update, began time.Time, changes int, woken map[*Subscription]struct{}) {
	if changes == 0 {
		return
	}
	one := stamp{gen: t.gen, at: began.UnixNano()}
	if tracer := t.group.cache.cfg.Tracer; tracer != nil {
		clients := 0
		for s := range woken {
			if s.concerns.newest == t.stamps.n+1 {
				clients += s.count
			}
		}
		received := u.Received
		if received.IsZero() {
			received = began
		}
		one.trace = tracer.Start(trace.Source{
			Type: resource.TypeLabel(t.Type.URL), Key: string(t.group.Key), Version: cmp.Or(u.Version, t.allLocked().Hex()), Received: received, Began: began, Parent: t.parentLocked(u, began),
		}, changes, clients)
	}
	t.stamps.add(one)
}

// eachStampLocked goes through the updates that concern s and are among those after
// generation from, up to to, the oldest first.
func (t *Table) eachStampLocked(s *Subscription, from, to uint64, yield func(*stamp) bool) {
	n := t.stamps.n
	for number := n - min(n, remembered) + 1; number <= n; number++ {
		if number > s.concerns.newest {
			return
		}
		one := t.stamps.of(number)
		if one.gen > from && one.gen <= to && s.concerns.bits>>(s.concerns.newest-number)&1 != 0 && !yield(one) {
			return
		}
	}
}

// Came tells when the oldest update came that concerns w, of those that end after
// generation from, up to to; zero where none is remembered.
func (t *Table) Came(w *Watcher, from, to uint64) (at time.Time) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if w.sub != nil {
		t.eachStampLocked(w.sub, from, to, func(s *stamp) bool {
			at = time.Unix(0, s.at)
			return false
		})
	}
	return at
}

// Traced appends those of the updates that [Table.Came] looks at which are followed,
// and came after a moment, to buf.
func (t *Table) Traced(buf []*trace.Update, w *Watcher, from, to uint64, after time.Time) []*trace.Update {
	since := after.UnixNano()
	t.mu.RLock()
	defer t.mu.RUnlock()
	if w.sub != nil {
		t.eachStampLocked(w.sub, from, to, func(s *stamp) bool {
			if s.trace.Flying() && s.at >= since {
				buf = append(buf, s.trace)
			}
			return true
		})
	}
	return buf
}

// Arrival is an update of a table, as it is remembered.
type Arrival struct {
	// Number counts the updates of the table, the first is 1; Gen is the generation
	// that it ends with.
	Number, Gen uint64
	At          time.Time
}

// Latest is the newest update of the table; ok is false where there was none.
func (t *Table) Latest() (a Arrival, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.stamps.n == 0 {
		return Arrival{}, false
	}
	newest := t.stamps.of(t.stamps.n)
	return Arrival{Number: t.stamps.n, Gen: newest.gen, At: time.Unix(0, newest.at)}, true
}

// Concerns reports whether w was to be told of an update, by its number. What is no
// longer remembered concerns nobody.
func (t *Table) Concerns(w *Watcher, number uint64) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if w.sub == nil {
		return false
	}
	c := &w.sub.concerns
	return number <= c.newest && c.newest-number < remembered && c.bits>>(c.newest-number)&1 != 0
}
