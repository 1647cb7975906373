package cache

import (
	"cmp"
	"iter"
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
	names map[string]*erroredName
	order []*erroredName // by age, the oldest first, with some that are forgotten
	last  uint64         // the number of the newest one
	bytes int64
	sum   resource.Digest // of the names, in no order
}

// erroredName is one of these names.
type erroredName struct {
	name      string
	at        uint64 // a number that grows
	forgotten bool
}

func (e *errored) has(name string) bool { return e.names[name] != nil }

// erroredSize is roughly what a name in errored takes, in bytes.
func erroredSize(name string) int64 { return int64(88 + len(name)) }

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
		t.bytes -= e.bytes
		*e = errored{names: make(map[string]*erroredName), last: e.last}
	}
	e.last++
	one := &erroredName{name: name, at: e.last}
	e.names[name], e.order = one, append(e.order, one)
	t.countErroredLocked(name, 1)
}

// dismissLocked forgets what rememberLocked noted: clients that remember the error hold a
// copy that is not the newest any more, so they get the resource anyway.
func (t *Table) dismissLocked(name string) {
	e := &t.errored
	one := e.names[name]
	if one == nil {
		return
	}
	delete(e.names, name)
	one.forgotten = true
	t.countErroredLocked(name, -1)
	if len(e.order) > 2*len(e.names)+t.group.cache.step {
		e.order = slices.DeleteFunc(e.order, func(o *erroredName) bool { return o.forgotten })
	}
}

func (t *Table) countErroredLocked(name string, change int64) {
	e, digest := &t.errored, resource.NamesDigest([]string{name})
	if change > 0 {
		e.sum = e.sum.Add(digest)
	} else {
		e.sum = e.sum.Sub(digest)
	}
	e.bytes += change * erroredSize(name)
	t.bytes += change * erroredSize(name)
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

// SharedErrors is up to where another node was sent on one stream the names of which clients
// may remember an error. The zero value is that of a new stream. One goroutine uses it at a
// time.
type SharedErrors struct {
	upTo  uint64   // names up to this number were sent, or do not concern the other node
	again []string // of these, some that may concern it since
	more  bool
}

// More reports whether there was more than fits in one message.
func (s *SharedErrors) More() bool { return s.more }

// ask notes that the other node asks for names by now, which may concern names that were
// passed over. They are looked at in steps; see [inSteps].
func (s *SharedErrors) ask(t *Table, names iter.Seq[string]) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := 0
	for spelled := range names {
		if s.upTo == 0 || len(t.errored.names) == 0 {
			return
		}
		name := resource.Canonical(spelled)
		switch one := t.errored.names[name]; {
		case name == everything || resource.IsGlob(name):
			*s = SharedErrors{} // any of them may concern it
		case one != nil && one.at <= s.upTo:
			s.again = append(s.again, name)
		}
		if n++; n%t.group.cache.step == 0 {
			t.mu.RUnlock()
			t.mu.RLock()
		}
	}
}

// next returns names that the other node was not sent yet, of those that it covers: as many
// as fit in one message.
func (s *SharedErrors) next(t *Table, covers func(name string) bool) (names []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := &t.errored
	for n := 1; len(names) < resource.MaxErrored; n++ {
		name, ok := s.takeLocked(e)
		if !ok {
			break
		}
		if e.has(name) && covers(name) {
			names = append(names, name)
		}
		if n%t.group.cache.step == 0 {
			t.mu.RUnlock()
			t.mu.RLock()
		}
	}
	s.more = len(s.again) > 0 || s.upTo < e.last
	return names
}

// takeLocked returns the name to look at next.
func (s *SharedErrors) takeLocked(e *errored) (name string, ok bool) {
	if last := len(s.again) - 1; last >= 0 {
		name, s.again = s.again[last], s.again[:last]
		return name, true
	}
	if s.upTo >= e.last {
		s.again = nil
		return "", false
	}
	i, _ := slices.BinarySearchFunc(e.order, s.upTo+1, func(o *erroredName, at uint64) int { return cmp.Compare(o.at, at) })
	if i == len(e.order) {
		s.upTo = e.last // the newest ones are forgotten
		return "", false
	}
	s.upTo = e.order[i].at
	return e.order[i].name, true
}

// AskErrored notes that another node asks for names by now.
func (t *Table) AskErrored(shared *SharedErrors, names iter.Seq[string]) { shared.ask(t, names) }

// Errored returns the names of which clients may remember an error, as far as w, of another
// node, asks for them and was not sent them yet.
func (t *Table) Errored(w *Watcher, shared *SharedErrors) []string {
	return shared.next(t, func(name string) bool {
		s := w.sub
		if s == nil {
			return false
		}
		if _, named := s.names[name]; named || s.key.wildcard || t.coversLocked(s, name) {
			return true
		}
		e := t.entries[name]
		return e != nil && s.namesLocked(e)
	})
}

// AskErrored is [Table.AskErrored] of the owner of the key, and names that it is asked for.
func (f *Feed) AskErrored(typ *resource.Type, shared *SharedErrors, names []string) {
	if t := f.group.lookup(typ); t != nil {
		shared.ask(t, slices.Values(names))
	}
}

// Errored returns the names of which clients may remember an error, as far as the leg is
// asked for them and the owner of the key was not sent them yet.
func (f *Feed) Errored(typ *resource.Type, shared *SharedErrors) []string {
	t := f.group.lookup(typ)
	if t == nil {
		return nil
	}
	return shared.next(t, func(name string) bool {
		return t.legOf(name) == f.leg && t.coveredLocked(f.leg, name, nil)
	})
}
