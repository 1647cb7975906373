package cache

import (
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// Clients are sent some things without a change of a resource: that its TTL was renewed (see life),
// or what a response contained about a name besides the resources (see remark). Each of these has a
// number that grows with them across the table, its note, and a client's position includes the last
// note that it was sent. Of one resource or name only the newest note is kept, so a client that is
// behind gets one.

// remark is what a control plane sent about a name besides the resources. It is an error, which is
// remembered until the resource arrives, a newer error arrives, or the interest in the name ends
// (C16); or a removal in the form that it was written in.
type remark struct {
	about   resource.About
	key     string // the canonical form of the name (G1)
	leg     int    // the stream that delivered it
	removal bool
	local   bool // an error of the relay's own (K15)
	note    uint64
	place   link[remark]
}

func remarkedLink(r *remark) *link[remark] { return &r.place }

func newRemark(a resource.About, leg int) *remark {
	return &remark{about: a, key: resource.Canonical(a.Name), leg: leg}
}

func (r *remark) size() int64 {
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
func (u *turn) refuse(a resource.About) (kept bool) {
	name := resource.Canonical(a.Name)
	switch {
	case a.Variant != "":
	case a.Code == resource.CodeNotFound:
		u.remove(a.Name)
	case a.Code == resource.CodePermissionDenied:
		if e := u.table.entries[name]; e != nil {
			u.leave(e, state{hold: hold{leg: u.by}, denied: true})
		}
	}
	e := u.table.entries[name]
	return e != nil && e.heldBy(u.by) != nil
}

// remark records what an update contains besides its resources, as far as clients ask for it, and
// marks the subscriptions that can see it.
func (u *turn) remark(said Update) {
	t := u.table
	for _, a := range said.Errors {
		if a.Code == resource.CodeNotFound && t.legs[u.by].guard.has(resource.Canonical(a.Name)) {
			continue // clients drop the resource when they receive that (K16)
		}
		t.noteLocked(newRemark(a, u.by), u.woken)
	}
	for _, a := range said.RemovedNames {
		r := newRemark(a, u.by)
		r.removal = true
		t.noteLocked(r, u.woken)
	}
	if len(said.Extra) == 0 {
		return
	}
	t.notes++
	t.bytes += int64(len(said.Extra) - len(t.extra.fields))
	t.extra = extra{fields: said.Extra, note: t.notes}
	if len(said.Resources)+len(said.Removed)+len(said.Errors)+len(said.RemovedNames) > 0 {
		return
	}
	t.extra.alone = true
	for _, s := range t.subs {
		s.noted = t.notes
		u.woken[s] = struct{}{}
	}
}

// noteLocked remembers r and forgets what it replaces. A repeated r is not sent again.
func (t *Table) noteLocked(r *remark, woken map[*Subscription]struct{}) {
	name := r.key
	if !t.coveredLocked(r.leg, name, nil) || !t.oneOriginLocked(t.legOf(name), r.leg) { // not asked for (C10, G3)
		return
	}
	for _, old := range t.remarks[name] {
		if old.removal != r.removal || old.leg != r.leg || old.about.Variant != r.about.Variant {
			continue
		}
		if old.local == r.local && string(old.about.Raw) == string(r.about.Raw) {
			return
		}
		t.dropRemarkLocked(old)
		break
	}
	if !r.removal {
		t.rememberLocked(name, time.Now())
	}
	t.notes++
	r.note = t.notes
	t.remarks[name] = append(t.remarks[name], r)
	t.remarked.push(r)
	t.bytes += r.size()
	if r.local {
		t.locals++
	}
	asked := t.wants[name]
	if asked != nil && t.failedLocked(name) {
		t.closeLocked(asked, name)
	}
	mark := func(s *Subscription) {
		s.noted = t.notes
		woken[s] = struct{}{}
	}
	hears := []*want{asked}
	if !r.local { // else it is only for clients that ask for the name
		hears = append(hears, &t.wild, t.wants[resource.GlobOf(name)])
	}
	for _, w := range hears {
		if w == nil || w.leg != r.leg {
			continue
		}
		for s := range w.subs.all() {
			mark(s)
		}
	}
	t.reapRemarksLocked()
}

// failedLocked reports whether the control plane has answered for name with an error.
func (t *Table) failedLocked(name string) bool {
	_, failed := t.failureLocked(name)
	return failed
}

// failureLocked returns the error with which the control plane of name has answered, if it has.
func (t *Table) failureLocked(name string) (about resource.About, failed bool) {
	w := t.wants[name]
	for _, r := range t.remarks[name] {
		if !r.removal && !r.local && r.about.Variant == "" && (w == nil || w.leg == r.leg) {
			return r.about, true
		}
	}
	return about, false
}

func (t *Table) dropRemarkLocked(r *remark) {
	name := r.key
	rest := slices.DeleteFunc(slices.Clone(t.remarks[name]), func(o *remark) bool { return o == r })
	if len(rest) == 0 {
		delete(t.remarks, name)
	} else {
		t.remarks[name] = rest
	}
	t.remarked.remove(r)
	t.bytes -= r.size()
	if r.local {
		t.locals--
	}
}

// forgetRemarksLocked forgets what was sent about name, and reports whether that was an error.
func (t *Table) forgetRemarksLocked(name string) (failed bool) {
	for _, r := range t.remarks[name] {
		failed = failed || !r.removal
		t.dropRemarkLocked(r)
	}
	return failed
}

// forgetUnwanted forgets what was sent about names without interest. t.mu must not be held.
func (t *Table) forgetUnwanted() {
	for _, all := range inSteps(t, &t.mu, &t.remarks) {
		for _, r := range all { // a copy remains where some are dropped
			if !t.coveredLocked(r.leg, r.key, nil) {
				t.dropRemarkLocked(r)
			}
		}
	}
}

// remarksAtOnce bounds how many old ones each new one makes reapRemarksLocked examine.
const remarksAtOnce = 16

// reapRemarksLocked bounds the resource errors of names that only a wildcard covers, as reapLocked
// bounds the tombstones.
func (t *Table) reapRemarksLocked() {
	limit := max(t.group.cache.cfg.Tombstones, t.live) + len(t.wants)
	r := t.remarked.oldest
	for n := 0; n < remarksAtOnce && r != nil && t.remarked.len > limit; n++ {
		older := r
		if r = r.place.prev; t.wants[older.key] == nil {
			t.dropRemarkLocked(older)
		}
	}
}
