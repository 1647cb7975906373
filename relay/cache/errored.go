package cache

import (
	"cmp"
	"iter"
	"slices"
	"time"

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
	shown shown
}

// erroredName is one of these names.
type erroredName struct {
	name      string
	at        uint64 // a number that grows
	forgotten bool
	// since is from when on clients may have been sent the error, give or take onTheWay; zero
	// where that is not known.
	since time.Time
	// from is the generation of the resource before it was shown once more to some clients;
	// 0: to all. See [shown].
	from uint64
}

// shown says to whom resources were shown once more that had not changed: other nodes had
// sent clients an error of them. A client whose stream is older than that error does not
// remember it.
type shown struct {
	all  uint64    // generation of the newest that is shown to all clients
	upTo uint64    // and of the newest that is shown to those that came after the time late
	late time.Time // the earliest time from when on an error of one of these was sent
	at   time.Time // when the first of these was shown
}

// spares reports whether a client is shown nothing once more for the errors of other nodes:
// it had all up to a generation, and its stream is open since a time.
func (s *shown) spares(gen uint64, since time.Time) bool {
	return gen < s.upTo && gen >= s.all && since.Before(s.late)
}

// add notes that a resource is shown once more, for an error from since on; zero where that
// is not known. After a while there are others, and who is behind is shown those before.
func (s *shown) add(gen uint64, since time.Time) {
	if since.IsZero() {
		s.all = gen
		return
	}
	now := time.Now()
	since = since.Add(-onTheWay)
	switch {
	case s.late.IsZero() || now.Sub(s.at) > onTheWay:
		s.all, s.late, s.at = max(s.all, s.upTo), since, now
	case since.Before(s.late):
		s.late = since
	}
	s.upTo = gen
}

// onTheWay is how much later than they were written messages of other nodes may be read: far
// longer than streams between nodes live without an answer. It is for the whole way, as from a
// node to the owner and from that to others: what is passed on has the age that was heard.
const onTheWay = time.Minute

func (e *errored) has(name string) bool { return e.names[name] != nil }

// erroredSize is roughly what a name in errored takes, in bytes.
func erroredSize(name string) int64 { return int64(120 + len(name)) }

// mostErroredLocked bounds errored: there are as many as there may be tombstones.
func (t *Table) mostErroredLocked() int {
	n := max(t.group.cache.cfg.Tombstones, t.live)
	if t.revivable != nil {
		n = max(n, len(t.revivable.kept.Resources))
	}
	return n + len(t.wants)
}

// rememberLocked notes that clients are sent an error of name, from since on; zero where that
// is not known. Where there are too many such names, all others are forgotten.
func (t *Table) rememberLocked(name string, since time.Time) {
	e := &t.errored
	if e.has(name) {
		return
	}
	if len(e.names) >= t.mostErroredLocked() {
		t.bytes -= e.bytes
		*e = errored{names: make(map[string]*erroredName), last: e.last, shown: e.shown}
	}
	e.last++
	one := &erroredName{name: name, at: e.last, since: since}
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

// sinceOf is from when on clients may have been sent an error that they may remember; zero where
// that is not known, or there is none.
func (e *errored) sinceOf(name string) (unknown time.Time) {
	if one := e.names[name]; one != nil {
		return one.since
	}
	return unknown
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
func (t *Table) Learn(of resource.Errored) {
	t.mu.Lock()
	u := turn{table: t, first: t.gen + 1, woken: t.woken, final: true}
	u.learn(of)
	t.unlockAndWake()
	t.group.changed()
}

// learn is [Table.Learn] as a part of an update. What is new to this node and was there
// before is shown once more: a client may have moved here before the node learned of it.
func (u *turn) learn(of resource.Errored) {
	t := u.table
	var since time.Time
	if of.Age > 0 {
		since = time.Now().Add(-of.Age)
	}
	for _, spelled := range of.Names {
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
		u.note(name, e, since)
	}
}

// note remembers name, and shows what was there before the turn once more.
func (u *turn) note(name string, e *entry, since time.Time) {
	t := u.table
	t.rememberLocked(name, since)
	if e == nil || e.res == nil || e.gen >= u.first || t.hasErrorLocked(name) {
		return
	}
	from := e.gen
	u.again(e)
	t.errored.shown.add(t.gen, since)
	if one := t.errored.names[name]; one != nil && !since.IsZero() {
		one.from = from
	}
}

// sparedFrom is the generation of e to a client that is not shown once more what other nodes
// sent errors of; see [shown].
func (t *Table) sparedFrom(e *entry) uint64 {
	if one := t.errored.names[e.name]; one != nil && one.from > 0 {
		return one.from
	}
	return e.gen
}

// Spares reports whether a client need not be shown once more what other nodes sent errors
// of; see [Query.Spared]. It has all up to a position, on a stream that is open since a time.
func (h *Head) Spares(since Position, open time.Time) bool { return h.shown.spares(since.Gen, open) }

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
		u.note(name, e, one.ErroredSince)
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
func (s *SharedErrors) next(t *Table, covers func(name string) bool) (of resource.Errored) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e, now, unknown := &t.errored, time.Now(), false
	for n := 1; len(of.Names) < resource.MaxErrored; n++ {
		name, ok := s.takeLocked(e)
		if !ok {
			break
		}
		if one := e.names[name]; one != nil && covers(name) {
			of.Names = append(of.Names, name)
			unknown = unknown || one.since.IsZero()
			of.Age = max(of.Age, now.Sub(one.since), time.Second)
		}
		if n%t.group.cache.step == 0 {
			t.mu.RUnlock()
			t.mu.RLock()
		}
	}
	s.more = len(s.again) > 0 || s.upTo < e.last
	if unknown {
		of.Age = 0
	}
	return of
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
func (t *Table) Errored(w *Watcher, shared *SharedErrors) resource.Errored {
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
func (f *Feed) Errored(typ *resource.Type, shared *SharedErrors) (none resource.Errored) {
	t := f.group.lookup(typ)
	if t == nil {
		return none
	}
	return shared.next(t, func(name string) bool {
		return t.legOf(name) == f.leg && t.coveredLocked(f.leg, name, nil)
	})
}
