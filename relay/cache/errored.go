package cache

import (
	"iter"
	"slices"
	"time"

	"xdsrelay/relay/cache/notes"
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// mostErrored bounds errored: it may have as many names as there may be tombstones.
func (t *core) mostErrored() int {
	n := max(t.group.cache.cfg.Tombstones, t.store.Live())
	if t.pendingRestore != nil {
		n = max(n, len(t.pendingRestore.snapshot.Resources))
	}
	return n + t.demand.Len()
}

// takenBack reports whether clients may remember an error of name that has been reverted.
func (t *core) takenBack(name string) bool {
	return t.errored.Has(name) && !t.notes.HasError(name)
}

// Learn records names for which clients of another node may remember an error.
func (t *Table) Learn(of resource.Errored) {
	t.mu.Lock()
	u := updateTxn{table: &t.core, first: t.core.store.Gen() + 1, woken: t.core.woken, final: true}
	u.learn(of)
	t.unlockAndWake()
	t.group.changed()
}

// learn is [Table.Learn] as a part of an update. A resource that is older than the update and whose
// name is new here is resent: a client may have moved here before the node learned of it.
func (u *updateTxn) learn(of resource.Errored) {
	t := u.table
	var since time.Time
	if of.Age > 0 {
		since = time.Now().Add(-of.Age)
	}
	for _, spelled := range of.Names {
		name := resource.Canonical(spelled)
		e, stream := t.store.Get(name), t.streamOf(name)
		var aliases []string
		if e != nil && e.Res != nil {
			aliases = e.Res.Aliases
		}
		if stream == Nobody || t.errored.Has(name) || !t.covered(stream, name, aliases) {
			continue
		}
		if t.errored.Len() >= t.mostErrored() {
			return // another node cannot make this one forget its own
		}
		u.note(name, e, since)
	}
}

// note remembers name, and resends the resource if it is older than the update.
func (u *updateTxn) note(name string, e *table.Entry, since time.Time) {
	t := u.table
	t.errored.Remember(name, since, t.mostErrored())
	if e == nil || e.Res == nil || e.Gen >= u.first || t.notes.HasError(name) {
		return
	}
	from := e.Gen
	u.again(e)
	t.errored.ResentFor(name, from, t.store.Gen(), since, time.Now())
}

// Basis returns what a client has that has everything up to a position, on a stream that is open since a
// time: [Spared] if it needs no resends because of errors that other nodes sent.
func (h *SubscriptionState) Basis(since Position, open time.Time) Basis {
	if h.resent.Spares(since.Gen, open) {
		return Spared
	}
	return AsSent
}

// adopt takes the last known good of the type, before there is a resource.
func (t *core) adopt(r *pendingRestore) {
	t.pendingRestore = r
	if r != nil {
		t.recall(r)
	}
}

// recall remembers the names in the last known good for which clients may remember an error,
// except those that have changed since.
func (t *core) recall(r *pendingRestore) {
	u := updateTxn{table: t, first: t.store.Gen() + 1, woken: t.woken, final: true}
	for _, one := range r.snapshot.Resources {
		name := one.Resource.Key
		e := t.store.Get(name)
		if !one.Errored || t.errored.Has(name) || e != nil && (e.Res == nil || !e.Res.SameContent(one.Resource)) {
			continue
		}
		u.note(name, e, one.ErroredSince)
	}
}

// SharedErrors is up to where another node was sent, on one stream, the names for which clients may
// remember an error. The zero value is that of a new stream. One goroutine uses it at a time.
type SharedErrors struct{ sent notes.Shared }

// More reports whether there was more than fits in one message.
func (s *SharedErrors) More() bool { return s.sent.More() }

// AskErrored records that another node now asks for names.
func (t *Table) AskErrored(shared *SharedErrors, names iter.Seq[string]) {
	covers := func(name string) bool { return name == everything || resource.IsGlob(name) }
	t.core.inPauses(t.mu.reading(), func(step int, pause func()) { shared.sent.Ask(&t.core.errored, names, covers, step, pause) })
}

// nextErrored returns the names for which clients may remember an error that another node was not
// sent yet, of those that it covers.
func (t *Table) nextErrored(shared *SharedErrors, covers func(name string) bool) (of resource.Errored) {
	t.core.inPauses(t.mu.reading(), func(step int, pause func()) {
		of = shared.sent.Next(&t.core.errored, covers, time.Now(), step, pause)
	})
	return of
}

// Errored returns the names for which clients may remember an error, as far as w, of another node,
// asks for them and was not sent them yet.
func (t *Table) Errored(w *Watcher, shared *SharedErrors) resource.Errored {
	return t.nextErrored(shared, func(name string) bool {
		s := w.sub
		if s == nil {
			return false
		}
		if _, named := s.names[name]; named || s.key.wildcard || t.core.covers(s, name) {
			return true
		}
		e := t.core.store.Get(name)
		return e != nil && s.asksFor(e)
	})
}

// AskErrored is [Table.AskErrored] of the owner of the key, for names that it is asked for.
func (f *Feed) AskErrored(typ *resource.Type, shared *SharedErrors, names []string) {
	if t := f.group.lookup(typ); t != nil {
		t.AskErrored(shared, slices.Values(names))
	}
}

// Errored returns the names for which clients may remember an error, as far as the stream asks for
// them and the owner of the key was not sent them yet.
func (f *Feed) Errored(typ *resource.Type, shared *SharedErrors) (none resource.Errored) {
	t := f.group.lookup(typ)
	if t == nil {
		return none
	}
	return t.nextErrored(shared, func(name string) bool {
		return t.core.streamOf(name) == f.stream && t.core.covered(f.stream, name, nil)
	})
}
