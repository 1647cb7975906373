package cache

import (
	"time"

	"xdsrelay/relay/cache/notes"
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// refuse applies an error to the resource itself: NOT_FOUND removes it, PERMISSION_DENIED hides it,
// and everything else keeps a copy (C16, K8). It reports whether the stream still has one.
func (u *updateTxn) refuse(a resource.About) (kept bool) {
	name := resource.Canonical(a.Name)
	switch {
	case a.Variant != "":
	case a.Code == resource.CodeNotFound:
		u.remove(a.Name)
	case a.Code == resource.CodePermissionDenied:
		if u.gate != nil {
			u.gate.End(name) // a refusal is about security, and passes
		}
		if e := u.table.store.Get(name); e != nil {
			u.leave(e, table.State{Copy: table.Copy{Stream: u.by}, Denied: true})
		}
	}
	e := u.table.store.Get(name)
	return e != nil && e.CopyFrom(u.by) != nil
}

// noteErrors records what an update contains besides its resources, as far as clients ask for it,
// and marks the subscriptions that can see it.
func (u *updateTxn) noteErrors(said Update) {
	t := u.table
	for _, a := range said.Errors {
		if a.Code == resource.CodeNotFound && (t.streams[u.by].guard.Has(resource.Canonical(a.Name)) || u.removalPends(a.Name)) {
			continue // clients drop the resource when they receive that (K16)
		}
		t.noteError(notes.NewProblem(a, u.by, notes.Error), u.woken)
	}
	for _, a := range said.RemovedNames {
		if u.removalPends(a.Name) {
			continue
		}
		t.noteError(notes.NewProblem(a, u.by, notes.Removal), u.woken)
	}
	if len(said.Extra) == 0 {
		return
	}
	note := t.store.Note()
	alone := len(said.Resources)+len(said.Removed)+len(said.Errors)+len(said.RemovedNames) == 0
	t.notes.SetExtra(notes.Extra{Fields: said.Extra, Note: note, Alone: alone})
	if !alone {
		return
	}
	for _, s := range t.subs {
		s.noted = note
		u.woken[s] = struct{}{}
	}
}

// noteError remembers r, if its name is asked for, and marks the subscriptions that can see it.
// A repeated r is not sent again.
func (t *core) noteError(r *notes.Problem, woken map[*Subscription]struct{}) {
	if !t.covered(r.Stream, r.Name, nil) || !t.oneOrigin(t.streamOf(r.Name), r.Stream) { // not asked for (C10, G3)
		return
	}
	if t.notes.Has(r) {
		return
	}
	if r.IsError() {
		t.errored.Remember(r.Name, time.Now(), t.mostErrored())
	}
	t.notes.Add(r, t.store.Note())
	asked := t.demand.Get(r.Name)
	if asked != nil && t.failed(r.Name) {
		t.demand.Close(asked, r.Name)
	}
	hears := []*interest{asked}
	if r.Kind != notes.OwnError { // else it is only for clients that ask for the name
		hears = append(hears, t.demand.Wildcard(), t.demand.Get(resource.GlobOf(r.Name)))
	}
	for _, w := range hears {
		if w == nil || w.Stream() != r.Stream {
			continue
		}
		for s := range w.Subscribers().All() {
			s.noted = r.Note()
			woken[s] = struct{}{}
		}
	}
	// Errors of names that only a wildcard covers are bounded as tombstones are.
	limit := max(t.group.cache.cfg.Tombstones, t.store.Live()) + t.demand.Len()
	t.notes.Reap(limit, func(name string) bool { return t.demand.Get(name) != nil })
}

// failed reports whether the control plane has answered for name with an error.
func (t *core) failed(name string) bool {
	_, failed := t.failure(name)
	return failed
}

// failure returns the error with which the control plane of name has answered, if it has.
func (t *core) failure(name string) (about resource.About, failed bool) {
	return t.notes.Answer(name, func(stream int) bool {
		w := t.demand.Get(name)
		return w == nil || w.Stream() == stream
	})
}

// forgetUnwanted forgets what was sent about names without interest. t.mu must not be held.
func (t *Table) forgetUnwanted() {
	t.dropProblems(func(r *notes.Problem) bool { return !t.core.covered(r.Stream, r.Name, nil) })
}

// dropProblems forgets what was sent about names, if unwanted says so. t.mu must not be held.
func (t *Table) dropProblems(unwanted func(*notes.Problem) bool) {
	t.core.inPauses(&t.mu, func(step int, pause func()) {
		for _, all := range t.core.notes.Scan(step, pause) {
			for _, r := range all {
				if unwanted(r) {
					t.core.notes.Drop(r)
				}
			}
		}
	})
}
