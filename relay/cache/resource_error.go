package cache

import (
	"slices"
	"time"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// Clients are sent some things without a change of a resource: that its TTL was renewed (see
// ttlState), or what a response contained about a name besides the resources (see resourceError).
// Each of these has a number that grows with them across the table, its note, and a client's
// position includes the last note that it was sent. Of one resource or name only the newest note is
// kept, so a client that is behind gets one.

// resourceError is what a control plane sent about a name besides the resources. It is an error,
// which is remembered until the resource arrives, a newer error arrives, or the interest in the
// name ends (C16); or a removal in the form that it was written in.
type resourceError struct {
	about   resource.About
	key     string // the canonical form of the name (G1)
	stream  int    // the stream that delivered it
	removal bool
	local   bool // an error of the relay's own (K15)
	note    uint64
	place   neighbors[resourceError]
}

func errorLink(r *resourceError) *neighbors[resourceError] { return &r.place }

func newResourceError(a resource.About, stream int) *resourceError {
	return &resourceError{about: a, key: resource.Canonical(a.Name), stream: stream}
}

func (r *resourceError) size() int64 {
	return int64(180 + 2*len(r.about.Name) + len(r.about.Raw) + len(r.about.Variant))
}

// extra holds the fields that the relay does not know, of the newest response with any. They are
// sent with other news of the type, or alone if they arrived alone.
type extra struct {
	fields []byte
	note   uint64
	alone  bool
}

// refuse applies an error to the resource itself: NOT_FOUND removes it, PERMISSION_DENIED hides it,
// and everything else keeps a copy (C16, K8). It reports whether the stream still has one.
func (u *updateTxn) refuse(a resource.About) (kept bool) {
	name := resource.Canonical(a.Name)
	switch {
	case a.Variant != "":
	case a.Code == resource.CodeNotFound:
		u.remove(a.Name)
	case a.Code == resource.CodePermissionDenied:
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
		if a.Code == resource.CodeNotFound && t.streams[u.by].guard.has(resource.Canonical(a.Name)) {
			continue // clients drop the resource when they receive that (K16)
		}
		t.noteErrorLocked(newResourceError(a, u.by), u.woken)
	}
	for _, a := range said.RemovedNames {
		r := newResourceError(a, u.by)
		r.removal = true
		t.noteErrorLocked(r, u.woken)
	}
	if len(said.Extra) == 0 {
		return
	}
	note := t.store.Note()
	t.bytes += int64(len(said.Extra) - len(t.extra.fields))
	t.extra = extra{fields: said.Extra, note: note}
	if len(said.Resources)+len(said.Removed)+len(said.Errors)+len(said.RemovedNames) > 0 {
		return
	}
	t.extra.alone = true
	for _, s := range t.subs {
		s.noted = note
		u.woken[s] = struct{}{}
	}
}

// noteErrorLocked remembers r and forgets what it replaces. A repeated r is not sent again.
func (t *Table) noteErrorLocked(r *resourceError, woken map[*Subscription]struct{}) {
	name := r.key
	if !t.coveredLocked(r.stream, name, nil) || !t.oneOriginLocked(t.streamOf(name), r.stream) { // not asked for (C10, G3)
		return
	}
	for _, old := range t.resourceErrors[name] {
		if old.removal != r.removal || old.stream != r.stream || old.about.Variant != r.about.Variant {
			continue
		}
		if old.local == r.local && string(old.about.Raw) == string(r.about.Raw) {
			return
		}
		t.dropErrorLocked(old)
		break
	}
	if !r.removal {
		t.rememberLocked(name, time.Now())
	}
	r.note = t.store.Note()
	t.resourceErrors[name] = append(t.resourceErrors[name], r)
	t.errorsByNote.push(r)
	t.bytes += r.size()
	if r.local {
		t.localErrors++
	}
	asked := t.demand.Get(name)
	if asked != nil && t.failedLocked(name) {
		t.demand.Close(asked, name)
	}
	mark := func(s *Subscription) {
		s.noted = r.note
		woken[s] = struct{}{}
	}
	hears := []*interest{asked}
	if !r.local { // else it is only for clients that ask for the name
		hears = append(hears, t.demand.Wildcard(), t.demand.Get(resource.GlobOf(name)))
	}
	for _, w := range hears {
		if w == nil || w.Stream() != r.stream {
			continue
		}
		for s := range w.Subscribers().All() {
			mark(s)
		}
	}
	t.reapErrorsLocked()
}

// failedLocked reports whether the control plane has answered for name with an error.
func (t *Table) failedLocked(name string) bool {
	_, failed := t.failureLocked(name)
	return failed
}

// failureLocked returns the error with which the control plane of name has answered, if it has.
func (t *Table) failureLocked(name string) (about resource.About, failed bool) {
	w := t.demand.Get(name)
	for _, r := range t.resourceErrors[name] {
		if !r.removal && !r.local && r.about.Variant == "" && (w == nil || w.Stream() == r.stream) {
			return r.about, true
		}
	}
	return about, false
}

func (t *Table) dropErrorLocked(r *resourceError) {
	name := r.key
	rest := slices.DeleteFunc(slices.Clone(t.resourceErrors[name]), func(o *resourceError) bool { return o == r })
	if len(rest) == 0 {
		delete(t.resourceErrors, name)
	} else {
		t.resourceErrors[name] = rest
	}
	t.errorsByNote.remove(r)
	t.bytes -= r.size()
	if r.local {
		t.localErrors--
	}
}

// forgetErrorsLocked forgets what was sent about name, and reports whether that was an error.
func (t *Table) forgetErrorsLocked(name string) (failed bool) {
	for _, r := range t.resourceErrors[name] {
		failed = failed || !r.removal
		t.dropErrorLocked(r)
	}
	return failed
}

// forgetUnwanted forgets what was sent about names without interest. t.mu must not be held.
func (t *Table) forgetUnwanted() {
	for _, all := range inSteps(t, &t.mu, &t.resourceErrors) {
		for _, r := range all { // a copy remains where some are dropped
			if !t.coveredLocked(r.stream, r.key, nil) {
				t.dropErrorLocked(r)
			}
		}
	}
}

// errorsAtOnce bounds how many old ones each new one makes reapErrorsLocked examine.
const errorsAtOnce = 16

// reapErrorsLocked bounds the resource errors of names that only a wildcard covers, as reapLocked
// bounds the tombstones.
func (t *Table) reapErrorsLocked() {
	limit := max(t.group.cache.cfg.Tombstones, t.store.Live()) + t.demand.Len()
	r := t.errorsByNote.oldest
	for n := 0; n < errorsAtOnce && r != nil && t.errorsByNote.len > limit; n++ {
		older := r
		if r = r.place.prev; t.demand.Get(older.key) == nil {
			t.dropErrorLocked(older)
		}
	}
}
