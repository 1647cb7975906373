package cache

import (
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// updateTxn is one update of a stream that is being applied to a table, whose mu is held.
type updateTxn struct {
	table *core
	by    int
	first uint64 // generation of the first change
	woken map[*Subscription]struct{}
	// final says that removals of this update are definite: they were held back long enough, here
	// or by the owner, or other nodes know better. They are not restored with parents that are held
	// back next (see children).
	final bool
	gate  *streamGate // of the stream; nil: clients see everything at once
	// noted is what is noted of the table; nil: nothing. With fresh, nothing was known of the wildcard set.
	noted *notedChanges
	fresh bool
	held  bool     // a gate held the changes back until now
	order ordering // of its resources

	added, changed, removed uint32 // resources; see record
	edits                   []edit // the first of them; see record
	version                 string // the control plane's own; see record
}

// set gives name a state that clients can see.
func (u *updateTxn) set(name string, s table.State) {
	from, e := uint64(0), u.table.store.Get(name)
	if e != nil && e.TTLState == nil {
		from = e.Gen
	}
	u.noteBefore(name, e, s)
	u.table.store.Next() // each change has its own, so that an update can be sent in parts (B40)
	old := u.table.set(name, s, u.first, u.woken)
	if old != nil && !u.final {
		u.table.lose(u.by, old, s.Res, from)
	}
	switch {
	case old == s.Res:
	case old == nil:
		u.added++
		u.record(name, edAdded, nil, u.added)
	case s.Res == nil:
		u.removed++
		u.record(name, edRemoved, old, u.removed)
	default:
		u.changed++
		u.record(name, edChanged, old, u.changed)
	}
}

// entryOf returns the entry of res, nil if nothing is known of its name.
func (u *updateTxn) entryOf(res *resource.Resource) *table.Entry {
	if e := u.order.atPlace(u.by, res); e != nil {
		return e
	}
	return u.table.store.Get(res.Key)
}

// put makes res the stream's copy. Clients see the copy that arrived last, until its stream
// releases it. Content that they already have keeps the version that they know (D15).
func (u *updateTxn) put(res *resource.Resource) {
	t, wild := u.table, u.by == u.table.demand.Wildcard().Stream()
	t.store.ClearUncacheable(res.Key)
	if !u.held { // else the control plane may have removed it since
		t.streams[u.by].guard.Release(res.Key)
	}
	t.streams[u.by].names.Arrived(res.Key)
	mine := table.Copy{Stream: u.by, Version: res.Version, Res: res}
	e := u.entryOf(res)
	gen, had := t.store.Gen(), e.TTL()
	failed := t.notes.Forget(res.Key)
	if e == nil || e.Res == nil {
		mine = t.newCopy(u.by, res)
		t.store.Count(u.by, nil, mine.Res)
		t.streams[u.by].rebase(res.Key, mine.Res)
		u.set(mine.Res.Key, table.State{Copy: mine, Member: wild})
		e = t.store.Get(res.Key)
		u.order.add(e)
		u.refreshTTL(e, res, gen, had)
		return
	}
	u.order.add(e)
	var old *resource.Resource
	if h := e.CopyFrom(u.by); h != nil {
		if h.Res.SameContent(res) {
			t.store.SetVersion(e, u.by, res.Version)
			if failed {
				u.again(e)
			}
			u.refreshTTL(e, res, gen, had)
			return
		}
		old = h.Res
	}
	other := e.OtherCopy(u.by)
	switch {
	case e.Res.SameContent(res):
		mine.Res = e.Res
	case other != nil && other.Res.SameContent(res):
		mine.Res = other.Res
	default:
		mine = t.newCopy(u.by, res)
	}
	if !e.Res.SameContent(res) {
		t.errored.Dismiss(e.Name, t.group.cache.step)
	}
	t.store.Count(u.by, old, mine.Res)
	t.streams[u.by].rebase(res.Key, mine.Res)
	u.show(e, table.State{Copy: mine, Second: other, Member: wild || e.Member})
	u.refreshTTL(e, res, gen, had)
}

// newCopy returns the copy of a stream of a resource that has arrived. Where another key has an equal
// resource, both use the same memory.
func (t *core) newCopy(stream int, res *resource.Resource) table.Copy {
	if t.shares {
		res = t.group.cache.pool.Share(res)
	}
	return table.Copy{Stream: stream, Version: res.Version, Res: res}
}

// again makes clients get e once more, although it has not changed: that reverts the error that
// they got for its name, which they remember until then (C16, D15).
func (u *updateTxn) again(e *table.Entry) {
	s := table.State{Copy: e.Copy, Second: e.Second(), Member: e.Member}
	same := *e.Res
	s.Res = &same
	for _, h := range e.Copies() {
		if h.Stream != s.Stream && h.Res == e.Res {
			other := h
			other.Res = s.Res
			s.Second = &other
		}
	}
	u.set(e.Name, s)
	u.table.errored.ResentToAll(e.Name)
}

// lose records that the stream's control plane no longer has the resource of a canonical name.
func (u *updateTxn) lose(name string) {
	if u.gate != nil && u.holdBack(name, nil) {
		return
	}
	if e := u.table.store.Get(name); e != nil {
		u.drop(e)
		return
	}
	u.absent(name)
}

// drop releases the stream's copy of e, if it has one. A copy of another stream stays (D11).
func (u *updateTxn) drop(e *table.Entry) {
	if e.Denied && e.Stream == u.by {
		u.table.store.ClearUncacheable(e.Name)
		u.absent(e.Name)
		return
	}
	u.leave(e, table.State{Noticed: u.by == u.table.demand.Wildcard().Stream()})
}

// leave releases the stream's copy of e, if it has one, and sets e to last, unless another stream
// has a copy, too.
func (u *updateTxn) leave(e *table.Entry, last table.State) {
	t, h := u.table, e.CopyFrom(u.by)
	if h == nil {
		return
	}
	gen, had, seen := t.store.Gen(), e.TTL(), e.Stream == u.by
	t.store.Count(u.by, h.Res, nil)
	t.streams[u.by].guard.Release(e.Name)
	t.streams[u.by].rebase(e.Name, nil)
	rest := e.OtherCopy(u.by)
	if rest == nil {
		u.set(e.Name, last)
		return
	}
	u.show(e, table.State{Copy: *rest, Member: rest.Stream == t.demand.Wildcard().Stream()})
	if seen {
		u.noteTTL(e, gen, had, false)
	}
}

// remove records that the stream's control plane has no resource of a name.
func (u *updateTxn) remove(spelled string) {
	t, name := u.table, resource.Canonical(spelled)
	t.streams[u.by].names.Answer(name)
	if t.streams[u.by].guard.Has(name) || u.gate != nil && u.holdBack(name, nil) {
		return
	}
	gen := t.store.Gen()
	if e := t.store.Get(name); e != nil && (e.Res != nil || e.Denied) {
		u.drop(e)
	} else if w := t.demand.Get(name); w != nil && w.Stream() == u.by && !t.store.Knows(name) {
		u.absent(name)
	}
	t.store.ClearUncacheable(name)
	if t.store.Gen() > gen {
		t.store.Spell(name, spelled)
	}
	if w := t.demand.Get(name); w != nil && w.Stream() == u.by {
		t.answerGlob(name, u.woken)
	}
}

// show is set, unless clients see no difference.
func (u *updateTxn) show(e *table.Entry, s table.State) {
	if s.Res != e.Res || s.Member != e.Member {
		u.set(e.Name, s)
		return
	}
	u.table.store.SetCopies(e, s)
}

// absent makes name one that is known not to exist.
func (u *updateTxn) absent(name string) {
	u.set(name, table.State{Noticed: u.by == u.table.demand.Wildcard().Stream()})
}
