package cache

import (
	"cmp"
	"time"

	"xdsrelay/relay/cache/recent"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/trace"
)

// rememberUpdate remembers the update that has just made changes changes, and whose
// subscriptions are in woken. Its time of arrival is when it began to be applied: every
// subscription that can see it had joined by then.
func (t *core) rememberUpdate(u *Update, began time.Time, changes int, woken map[*Subscription]struct{}) {
	if changes == 0 {
		return
	}
	one := recent.Update[*trace.Update]{Gen: t.store.Gen(), At: began.UnixNano()}
	if tracer := t.group.cache.cfg.Tracer; tracer != nil {
		clients := 0
		for s := range woken {
			if s.updates.HasNewest(t.updates.Next()) {
				clients += s.count
			}
		}
		received := u.Received
		if received.IsZero() {
			received = began
		}
		one.Trace = tracer.Start(trace.Source{
			Type: resource.TypeLabel(t.Type.URL), Key: string(t.group.Key), Version: cmp.Or(u.Version, t.store.All().Hex()), Received: received, Began: began, Parent: t.parent(u, began),
		}, changes, clients)
	}
	t.updates.Add(one)
	if last := t.history.newest(); one.Trace != nil && last != nil && last.gen == one.Gen {
		last.trace = one.Trace.TraceID()
	}
}

// ArrivedAt returns when the oldest update arrived that concerns w and ends after generation from,
// up to to; zero if none is remembered.
func (t *Table) ArrivedAt(w *Watcher, from, to uint64) (at time.Time) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if w.sub != nil {
		t.core.updates.Each(&w.sub.updates, from, to, func(u *recent.Update[*trace.Update]) bool {
			at = time.Unix(0, u.At)
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
		t.core.updates.Each(&w.sub.updates, from, to, func(u *recent.Update[*trace.Update]) bool {
			if u.Trace.Flying() && u.At >= since {
				buf = append(buf, u.Trace)
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
	newest, number := t.core.updates.Newest()
	if newest == nil {
		return UpdateRef{}, false
	}
	return UpdateRef{Number: number, Gen: newest.Gen, At: time.Unix(0, newest.At)}, true
}

// Concerns reports whether the update with a number concerned w. It is false for updates that are
// no longer remembered.
func (t *Table) Concerns(w *Watcher, number uint64) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return w.sub != nil && w.sub.updates.Has(number)
}
