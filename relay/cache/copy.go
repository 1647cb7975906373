package cache

import "xdsrelay/relay/resource"

// resourceCopy is the copy of a resource that one stream delivered.
type resourceCopy struct {
	stream int
	// version is the newest one that the control plane gave. It differs from res.Version if
	// identical content arrived with a new version (D15).
	version  string
	res      *resource.Resource
	ttlState *ttlState // nil if it has no TTL; see ttlState
}

// copyFrom returns the copy of a stream, nil if there is none.
func (e *entry) copyFrom(stream int) *resourceCopy {
	switch {
	case e.res == nil:
		return nil
	case e.stream == stream:
		return &e.resourceCopy
	case e.second != nil && e.second.stream == stream:
		return e.second
	}
	return nil
}

// belongsTo reports whether a stream has a copy of e, or is refused one.
func (e *entry) belongsTo(stream int) bool {
	return e.copyFrom(stream) != nil || e.denied && e.stream == stream
}

// copies lists the copies of e.
func (e *entry) copies() []resourceCopy {
	switch {
	case e.res == nil:
		return nil
	case e.second == nil:
		return []resourceCopy{e.resourceCopy}
	}
	return []resourceCopy{e.resourceCopy, *e.second}
}

// otherCopy returns the copy of another stream, nil if there is none.
func (e *entry) otherCopy(stream int) *resourceCopy {
	switch {
	case e.res == nil:
		return nil
	case e.stream != stream:
		other := e.resourceCopy
		return &other
	}
	return e.second
}

// secondSize is the additional memory of the second copy, in bytes.
func (e *entry) secondSize() int64 {
	if e.second == nil || e.second.res == e.res {
		return 0
	}
	return int64(e.second.res.Size())
}

// count replaces old by res in the stream's counts; either may be nil.
func (l *typeStreamState) count(old, res *resource.Resource) {
	if old != nil {
		l.live--
		l.digest = l.digest.Sub(old.Member())
	}
	if res != nil {
		l.live++
		l.digest = l.digest.Add(res.Member())
	}
}

// setCopiesLocked replaces the copies of e by those of s. The TTL state of a copy ends with it.
func (t *Table) setCopiesLocked(e *entry, s state) {
	t.bytes -= e.secondSize()
	kept := func(l *ttlState) bool { return l == s.ttlState || s.second != nil && l == s.second.ttlState }
	if l := e.ttlState; l != nil && !kept(l) {
		t.endTTLStateLocked(l)
	} else if l != nil && l != s.ttlState {
		t.unlistTTLStateLocked(l)
	}
	if e.second != nil && e.second.ttlState != nil && !kept(e.second.ttlState) {
		t.endTTLStateLocked(e.second.ttlState)
	}
	if e.denied {
		t.streams[e.stream].denied--
	}
	if s.denied {
		t.streams[s.stream].denied++
	}
	e.resourceCopy, e.second, e.denied = s.resourceCopy, s.second, s.denied
	t.bytes += e.secondSize()
}

// updateTxn is one update of a stream that is being applied to a table, whose mu is held.
type updateTxn struct {
	table *Table
	by    int
	first uint64 // generation of the first change
	woken map[*Subscription]struct{}
	// final says that removals of this update are definite: they were held back long enough, here
	// or by the owner, or other nodes know better. They are not restored with parents that are held
	// back next (see children).
	final bool

	added, changed, removed uint32 // resources; see recordLocked
}

// set gives name a state that clients can see.
func (u *updateTxn) set(name string, s state) {
	from := uint64(0)
	if e := u.table.entries[name]; e != nil && e.ttlState == nil {
		from = e.gen
	}
	u.table.gen++ // each change has its own, so that an update can be sent in parts (B40)
	old := u.table.setLocked(name, s, u.first, u.woken)
	if old != nil && !u.final {
		u.table.loseLocked(u.by, old, s.res, from)
	}
	switch {
	case old == s.res:
	case old == nil:
		u.added++
	case s.res == nil:
		u.removed++
	default:
		u.changed++
	}
}

// put makes res the stream's copy. Clients see the copy that arrived last, until its stream
// releases it. Content that they already have keeps the version that they know (D15).
func (u *updateTxn) put(res *resource.Resource) {
	t, wild := u.table, u.by == u.table.wild.stream
	t.clearUncacheableLocked(res.Key)
	t.streams[u.by].guard.release(res.Key)
	delete(t.streams[u.by].removed, res.Key)
	delete(t.streams[u.by].assumed, res.Key)
	mine := resourceCopy{stream: u.by, version: res.Version, res: res}
	e := t.entries[res.Key]
	gen, had := t.gen, e.ttl()
	failed := t.forgetErrorsLocked(res.Key)
	if e == nil || e.res == nil {
		t.streams[u.by].count(nil, res)
		u.set(res.Key, state{resourceCopy: mine, member: wild})
		u.refreshTTL(t.entries[res.Key], res, gen, had)
		return
	}
	var old *resource.Resource
	if h := e.copyFrom(u.by); h != nil {
		if h.res.SameContent(res) {
			h.version = res.Version
			if failed {
				u.again(e)
			}
			u.refreshTTL(e, res, gen, had)
			return
		}
		old = h.res
	}
	other := e.otherCopy(u.by)
	switch {
	case e.res.SameContent(res):
		mine.res = e.res
	case other != nil && other.res.SameContent(res):
		mine.res = other.res
	}
	if !e.res.SameContent(res) {
		t.dismissLocked(e.name)
	}
	t.streams[u.by].count(old, mine.res)
	u.show(e, state{resourceCopy: mine, second: other, member: wild || e.member})
	u.refreshTTL(e, res, gen, had)
}

// again makes clients get e once more, although it has not changed: that reverts the error that
// they got for its name, which they remember until then (C16, D15).
func (u *updateTxn) again(e *entry) {
	s := state{resourceCopy: e.resourceCopy, second: e.second, member: e.member}
	same := *e.res
	s.res = &same
	for _, h := range e.copies() {
		if h.stream != s.stream && h.res == e.res {
			other := h
			other.res = s.res
			s.second = &other
		}
	}
	u.set(e.name, s)
	if one := u.table.errored.names[e.name]; one != nil {
		one.from = 0
	}
}

// drop releases the stream's copy of e, if it has one. A copy of another stream stays (D11).
func (u *updateTxn) drop(e *entry) {
	if e.denied && e.stream == u.by {
		u.table.clearUncacheableLocked(e.name)
		u.absent(e.name)
		return
	}
	u.leave(e, state{noticed: u.by == u.table.wild.stream})
}

// leave releases the stream's copy of e, if it has one, and sets e to last, unless another stream
// has a copy, too.
func (u *updateTxn) leave(e *entry, last state) {
	t, h := u.table, e.copyFrom(u.by)
	if h == nil {
		return
	}
	gen, had, seen := t.gen, e.ttl(), e.stream == u.by
	t.streams[u.by].count(h.res, nil)
	t.streams[u.by].guard.release(e.name)
	rest := e.otherCopy(u.by)
	if rest == nil {
		u.set(e.name, last)
		return
	}
	u.show(e, state{resourceCopy: *rest, member: rest.stream == t.wild.stream})
	if seen {
		u.noteTTL(e, gen, had, false)
	}
}

// remove records that the stream's control plane has no resource of a name.
func (u *updateTxn) remove(spelled string) {
	t, name := u.table, resource.Canonical(spelled)
	delete(t.streams[u.by].assumed, name)
	if t.streams[u.by].guard.has(name) {
		return
	}
	gen := t.gen
	if e := t.entries[name]; e != nil && (e.res != nil || e.denied) {
		u.drop(e)
	} else if w := t.interests[name]; w != nil && w.stream == u.by && !t.knowsLocked(name) {
		u.absent(name)
	}
	t.clearUncacheableLocked(name)
	if t.gen > gen {
		t.spelledByOriginLocked(name, spelled)
	}
	if w := t.interests[name]; w != nil && w.stream == u.by {
		t.answerGlobLocked(name, u.woken)
	}
}

// show is set, unless clients see no difference.
func (u *updateTxn) show(e *entry, s state) {
	if s.res != e.res || s.member != e.member {
		u.set(e.name, s)
		return
	}
	u.table.setCopiesLocked(e, s)
}

// absent makes name one that is known not to exist.
func (u *updateTxn) absent(name string) {
	u.set(name, state{noticed: u.by == u.table.wild.stream})
}
