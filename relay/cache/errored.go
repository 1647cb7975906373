package cache

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// Clients remember an error until they get the resource (C16). A client that was away when the
// error was reverted, and returns with the newest copy, needs the resource once more: on any node,
// even after a restart. So a table remembers the names of these errors. They are part of the last
// known good, and nodes send them to each other along with the key: an owner to its followers, and
// followers to an owner, which may have restarted.

// errored are names for which clients may remember an error, although they have the present
// resource. The table's mu guards them.
type errored struct {
	names map[string]*erroredName
	order []*erroredName // by age, the oldest first, including some that are forgotten
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
	// since is from when on clients may have been sent the error, give or take onTheWay; zero if
	// that is unknown.
	since time.Time
	// from is the generation of the resource before it was resent to some clients; 0: to all. See
	// [shown].
	from uint64
}

// shown records to which clients unchanged resources were resent because other nodes had sent
// clients an error for them. A client whose stream is older than that error does not remember it.
type shown struct {
	all  uint64    // generation of the newest that was resent to all clients
	upTo uint64    // generation of the newest that was resent to clients that connected after late
	late time.Time // the earliest time from when on an error of one of these was sent
	at   time.Time // when the first of these was resent
}

// spares reports whether nothing has to be resent to a client for the errors of other nodes: it had
// everything up to generation gen, and its stream is open since a time.
func (s *shown) spares(gen uint64, since time.Time) bool {
	return gen < s.upTo && gen >= s.all && since.Before(s.late)
}

// add records that a resource is resent, for an error from since on; zero if that is unknown. After
// a while a new batch begins, and clients that are behind are resent the previous ones.
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

// onTheWay is how much later than they were written messages of other nodes may be read: far longer
// than streams between nodes live without an answer. It covers the whole way, such as from a node
// to the owner and from there to others: a message that is passed on keeps the age with which it
// was received.
const onTheWay = time.Minute

func (e *errored) has(name string) bool { return e.names[name] != nil }

// erroredSize estimates the memory of a name in errored, in bytes.
func erroredSize(name string) int64 { return int64(120 + len(name)) }

// mostErroredLocked bounds errored: it may have as many names as there may be tombstones.
func (t *Table) mostErroredLocked() int {
	n := max(t.group.cache.cfg.Tombstones, t.store.Live())
	if t.pendingRestore != nil {
		n = max(n, len(t.pendingRestore.snapshot.Resources))
	}
	return n + t.demand.Len()
}

// rememberLocked records that clients are sent an error of name, from since on; zero if that is
// unknown. If there are too many such names, all others are forgotten.
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

// dismissLocked reverses rememberLocked: clients that remember the error have a copy that is not
// the newest any more, so they get the resource anyway.
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

// sinceOf is from when on clients may have been sent an error that they may remember; zero if that
// is unknown, or there is none.
func (e *errored) sinceOf(name string) (unknown time.Time) {
	if one := e.names[name]; one != nil {
		return one.since
	}
	return unknown
}

// takenBackLocked reports whether clients may remember an error of name that has been reverted.
func (t *Table) takenBackLocked(name string) bool {
	return t.errored.has(name) && !t.hasErrorLocked(name)
}

// hasErrorLocked reports whether there is an error of name now.
func (t *Table) hasErrorLocked(name string) bool {
	return slices.ContainsFunc(t.resourceErrors[name], func(r *resourceError) bool { return !r.removal })
}

// Learn records names for which clients of another node may remember an error.
func (t *Table) Learn(of resource.Errored) {
	t.mu.Lock()
	u := updateTxn{table: t, first: t.store.Gen() + 1, woken: t.woken, final: true}
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
		if stream == Nobody || t.errored.has(name) || !t.coveredLocked(stream, name, aliases) {
			continue
		}
		if len(t.errored.names) >= t.mostErroredLocked() {
			return // another node cannot make this one forget its own
		}
		u.note(name, e, since)
	}
}

// note remembers name, and resends the resource if it is older than the update.
func (u *updateTxn) note(name string, e *table.Entry, since time.Time) {
	t := u.table
	t.rememberLocked(name, since)
	if e == nil || e.Res == nil || e.Gen >= u.first || t.hasErrorLocked(name) {
		return
	}
	from := e.Gen
	u.again(e)
	t.errored.shown.add(t.store.Gen(), since)
	if one := t.errored.names[name]; one != nil && !since.IsZero() {
		one.from = from
	}
}

// sparedFrom is the generation of e for a client that needs no resends because of errors that other
// nodes sent; see [shown].
func (t *Table) sparedFrom(e *table.Entry) uint64 {
	if one := t.errored.names[e.Name]; one != nil && one.from > 0 {
		return one.from
	}
	return e.Gen
}

// Spares reports whether a client needs no resends because of errors that other nodes sent; see
// [Query.Spared]. It has everything up to a position, on a stream that is open since a time.
func (h *SubscriptionState) Spares(since Position, open time.Time) bool {
	return h.shown.spares(since.Gen, open)
}

// adoptLocked takes the last known good of the type, before there is a resource.
func (t *Table) adoptLocked(r *pendingRestore) {
	t.pendingRestore = r
	if r != nil {
		t.recallLocked(r)
	}
}

// recallLocked remembers the names in the last known good for which clients may remember an error,
// except those that have changed since.
func (t *Table) recallLocked(r *pendingRestore) {
	u := updateTxn{table: t, first: t.store.Gen() + 1, woken: t.woken, final: true}
	for _, one := range r.snapshot.Resources {
		name := one.Resource.Key
		e := t.store.Get(name)
		if !one.Errored || t.errored.has(name) || e != nil && (e.Res == nil || !e.Res.SameContent(one.Resource)) {
			continue
		}
		u.note(name, e, one.ErroredSince)
	}
}

// SharedErrors is up to where another node was sent, on one stream, the names for which clients may
// remember an error. The zero value is that of a new stream. One goroutine uses it at a time.
type SharedErrors struct {
	upTo  uint64   // names up to this number were sent, or do not concern the other node
	again []string // of these, some that may concern it since
	more  bool
}

// More reports whether there was more than fits in one message.
func (s *SharedErrors) More() bool { return s.more }

// ask records that the other node now asks for names, which may concern names that were skipped.
// They are examined in steps; see [inSteps].
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

// next returns names that the other node was not sent yet, of those that it covers: as many as fit
// in one message.
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

// takeLocked returns the next name to examine.
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

// AskErrored records that another node now asks for names.
func (t *Table) AskErrored(shared *SharedErrors, names iter.Seq[string]) { shared.ask(t, names) }

// Errored returns the names for which clients may remember an error, as far as w, of another node,
// asks for them and was not sent them yet.
func (t *Table) Errored(w *Watcher, shared *SharedErrors) resource.Errored {
	return shared.next(t, func(name string) bool {
		s := w.sub
		if s == nil {
			return false
		}
		if _, named := s.names[name]; named || s.key.wildcard || t.coversLocked(s, name) {
			return true
		}
		e := t.store.Get(name)
		return e != nil && s.namesLocked(e)
	})
}

// AskErrored is [Table.AskErrored] of the owner of the key, for names that it is asked for.
func (f *Feed) AskErrored(typ *resource.Type, shared *SharedErrors, names []string) {
	if t := f.group.lookup(typ); t != nil {
		shared.ask(t, slices.Values(names))
	}
}

// Errored returns the names for which clients may remember an error, as far as the stream asks for
// them and the owner of the key was not sent them yet.
func (f *Feed) Errored(typ *resource.Type, shared *SharedErrors) (none resource.Errored) {
	t := f.group.lookup(typ)
	if t == nil {
		return none
	}
	return shared.next(t, func(name string) bool {
		return t.streamOf(name) == f.stream && t.coveredLocked(f.stream, name, nil)
	})
}
