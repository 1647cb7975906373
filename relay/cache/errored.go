package cache

import (
	"maps"
	"slices"

	"xdsrelay/relay/resource"
)

// Clients remember an error until they get the resource (C16). One that was away when the
// error was taken back, and comes back with the newest copy, needs the resource once more: on
// any node, also after a restart. So a table remembers the names of these errors. They are
// part of what is kept as last known good, and nodes send them to each other along with the
// key: an owner to those who follow it, and those to an owner, which may have restarted.

// errored are names of which clients may remember an error, although they hold the resource
// as it is now. It is guarded by the table's mu.
type errored struct {
	names map[string]uint64 // when each was noted: a number that grows
	last  uint64            // the newest of these
	sum   resource.Digest   // of the names, in no order
}

func (e *errored) has(name string) bool {
	_, is := e.names[name]
	return is
}

// erroredSize is roughly what a name in errored takes, in bytes.
func erroredSize(name string) int64 { return int64(56 + len(name)) }

// mostErroredLocked bounds errored: there are as many as there may be tombstones.
func (t *Table) mostErroredLocked() int {
	n := max(t.group.cache.cfg.Tombstones, t.live)
	if t.revivable != nil {
		n = max(n, len(t.revivable.kept.Resources))
	}
	return n + len(t.wants)
}

// rememberLocked notes that clients are sent an error of name. Where there are too many such
// names, all others are forgotten.
func (t *Table) rememberLocked(name string) {
	e := &t.errored
	if e.has(name) {
		return
	}
	if len(e.names) >= t.mostErroredLocked() {
		for name := range e.names {
			t.bytes -= erroredSize(name)
		}
		clear(e.names)
		e.sum = resource.Digest{}
	}
	e.last++
	e.names[name] = e.last
	e.sum = e.sum.Add(resource.NamesDigest([]string{name}))
	t.bytes += erroredSize(name)
}

// dismissLocked forgets what rememberLocked noted: clients that remember the error hold a
// copy that is not the newest any more, so they get the resource anyway.
func (t *Table) dismissLocked(name string) {
	if e := &t.errored; e.has(name) {
		delete(e.names, name)
		e.sum = e.sum.Sub(resource.NamesDigest([]string{name}))
		t.bytes -= erroredSize(name)
	}
}

// takenBackLocked reports whether clients may remember an error of name, and there is none
// any more.
func (t *Table) takenBackLocked(name string) bool {
	return t.errored.has(name) && !t.hasErrorLocked(name)
}

// hasErrorLocked reports whether there is an error of name now.
func (t *Table) hasErrorLocked(name string) bool {
	return slices.ContainsFunc(t.remarks[name], func(r *remark) bool { return !r.removal })
}

// Learn notes names of which clients of another node may remember an error.
func (t *Table) Learn(names []string) {
	t.mu.Lock()
	u := turn{table: t, first: t.gen + 1, woken: t.woken, final: true}
	u.learn(names)
	t.unlockAndWake()
	t.group.changed()
}

// learn is [Table.Learn] as a part of an update. What is new to this node and was there
// before is shown once more: a client may have moved here before the node learned of it.
func (u *turn) learn(names []string) {
	t := u.table
	for _, spelled := range names {
		name := resource.Canonical(spelled)
		e, leg := t.entries[name], t.legOf(name)
		var aliases []string
		if e != nil && e.res != nil {
			aliases = e.res.Aliases
		}
		if leg == Nobody || t.errored.has(name) || !t.coveredLocked(leg, name, aliases) {
			continue
		}
		if len(t.errored.names) >= t.mostErroredLocked() {
			return // another node cannot make this one forget its own
		}
		u.note(name, e)
	}
}

// note remembers name, and shows what was there before the turn once more.
func (u *turn) note(name string, e *entry) {
	u.table.rememberLocked(name)
	if e != nil && e.res != nil && e.gen < u.first && !u.table.hasErrorLocked(name) {
		u.again(e)
	}
}

// adoptLocked takes what was kept of the type, before there is a resource.
func (t *Table) adoptLocked(r *revivable) {
	t.revivable = r
	if r != nil {
		t.recallLocked(r)
	}
}

// recallLocked remembers the names that were kept as those of which clients may remember an
// error, but for what has changed since.
func (t *Table) recallLocked(r *revivable) {
	u := turn{table: t, first: t.gen + 1, woken: t.woken, final: true}
	for _, one := range r.kept.Resources {
		name := one.Resource.Key
		e := t.entries[name]
		if !one.Errored || t.errored.has(name) || e != nil && (e.res == nil || !e.res.SameContent(one.Resource)) {
			continue
		}
		u.note(name, e)
	}
}

// SharedErrors is what another node was sent on one stream of the names of which clients may
// remember an error. The zero value is that of a new stream.
type SharedErrors struct {
	last, scope uint64            // up to where it was sent, and for which subscription
	names       map[string]uint64 // what it was sent, as in errored
	more        bool              // there is more than fits in one message
}

// More reports whether there was more than was returned last.
func (s *SharedErrors) More() bool { return s.more }

// nextLocked returns names that the other node was not sent yet, of those that it covers: as
// many as fit in one message. scope is a number that changes with what it covers.
func (s *SharedErrors) nextLocked(t *Table, scope uint64, covers func(name string) bool) (names []string) {
	if !s.more && s.last == t.errored.last && s.scope == scope {
		return nil
	}
	maps.DeleteFunc(s.names, func(name string, at uint64) bool { return t.errored.names[name] != at })
	s.more, s.last, s.scope = false, t.errored.last, scope
	for name, at := range t.errored.names {
		if s.names[name] == at || !covers(name) {
			continue
		}
		if len(names) == resource.MaxErrored {
			s.more = true
			break
		}
		if s.names == nil {
			s.names = make(map[string]uint64)
		}
		s.names[name] = at
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Errored returns the names of which clients may remember an error, as far as w, of another
// node, asks for them and was not sent them yet. edits counts the changes of what it asks for.
func (t *Table) Errored(w *Watcher, edits uint64, shared *SharedErrors) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := w.sub
	if s == nil {
		return nil
	}
	return shared.nextLocked(t, edits, func(name string) bool {
		if _, named := s.names[name]; named || s.key.wildcard || t.coversLocked(s, name) {
			return true
		}
		e := t.entries[name]
		return e != nil && s.namesLocked(e)
	})
}

// Errored returns the names of which clients may remember an error, as far as the leg is
// asked for them and the owner of the key was not sent them yet.
func (f *Feed) Errored(typ *resource.Type, shared *SharedErrors) []string {
	t := f.group.lookup(typ)
	if t == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return shared.nextLocked(t, t.legs[f.leg].asked, func(name string) bool {
		return t.legOf(name) == f.leg && t.coveredLocked(f.leg, name, nil)
	})
}
