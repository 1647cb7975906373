package cache

import "xdsrelay/relay/resource"

// hold is the copy of a resource that one stream delivered.
type hold struct {
	leg int
	// version is the newest one that the control plane gave. It differs from res.Version if
	// identical content arrived with a new version (D15).
	version string
	res     *resource.Resource
	life    *life // nil if it has no TTL; see life
}

// heldBy returns the copy of a stream, nil if there is none.
func (e *entry) heldBy(leg int) *hold {
	switch {
	case e.res == nil:
		return nil
	case e.leg == leg:
		return &e.hold
	case e.also != nil && e.also.leg == leg:
		return e.also
	}
	return nil
}

// belongsTo reports whether a stream has a copy of e, or is refused one.
func (e *entry) belongsTo(leg int) bool {
	return e.heldBy(leg) != nil || e.denied && e.leg == leg
}

// holds lists the copies of e.
func (e *entry) holds() []hold {
	switch {
	case e.res == nil:
		return nil
	case e.also == nil:
		return []hold{e.hold}
	}
	return []hold{e.hold, *e.also}
}

// besides returns the copy of another stream, nil if there is none.
func (e *entry) besides(leg int) *hold {
	switch {
	case e.res == nil:
		return nil
	case e.leg != leg:
		other := e.hold
		return &other
	}
	return e.also
}

// alsoSize is the additional memory of the second copy, in bytes.
func (e *entry) alsoSize() int64 {
	if e.also == nil || e.also.res == e.res {
		return 0
	}
	return int64(e.also.res.Size())
}

// count replaces old by res in the stream's counts; either may be nil.
func (l *tableLeg) count(old, res *resource.Resource) {
	if old != nil {
		l.live--
		l.digest = l.digest.Sub(old.Member())
	}
	if res != nil {
		l.live++
		l.digest = l.digest.Add(res.Member())
	}
}

// holdLocked replaces the copies of e by those of s. The TTL state of a copy ends with it.
func (t *Table) holdLocked(e *entry, s state) {
	t.bytes -= e.alsoSize()
	kept := func(l *life) bool { return l == s.life || s.also != nil && l == s.also.life }
	if l := e.life; l != nil && !kept(l) {
		t.endLifeLocked(l)
	} else if l != nil && l != s.life {
		t.hideLifeLocked(l)
	}
	if e.also != nil && e.also.life != nil && !kept(e.also.life) {
		t.endLifeLocked(e.also.life)
	}
	if e.denied {
		t.legs[e.leg].denied--
	}
	if s.denied {
		t.legs[s.leg].denied++
	}
	e.hold, e.also, e.denied = s.hold, s.also, s.denied
	t.bytes += e.alsoSize()
}

// turn is one update of a stream that is being applied to a table, whose mu is held.
type turn struct {
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
func (u *turn) set(name string, s state) {
	from := uint64(0)
	if e := u.table.entries[name]; e != nil && e.life == nil {
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
func (u *turn) put(res *resource.Resource) {
	t, wild := u.table, u.by == u.table.wild.leg
	t.unhideLocked(res.Key)
	t.legs[u.by].guard.spare(res.Key)
	delete(t.legs[u.by].removed, res.Key)
	delete(t.legs[u.by].assumed, res.Key)
	mine := hold{leg: u.by, version: res.Version, res: res}
	e := t.entries[res.Key]
	gen, had := t.gen, e.ttl()
	failed := t.forgetRemarksLocked(res.Key)
	if e == nil || e.res == nil {
		t.legs[u.by].count(nil, res)
		u.set(res.Key, state{hold: mine, member: wild})
		u.endure(t.entries[res.Key], res, gen, had)
		return
	}
	var old *resource.Resource
	if h := e.heldBy(u.by); h != nil {
		if h.res.SameContent(res) {
			h.version = res.Version
			if failed {
				u.again(e)
			}
			u.endure(e, res, gen, had)
			return
		}
		old = h.res
	}
	other := e.besides(u.by)
	switch {
	case e.res.SameContent(res):
		mine.res = e.res
	case other != nil && other.res.SameContent(res):
		mine.res = other.res
	}
	if !e.res.SameContent(res) {
		t.dismissLocked(e.name)
	}
	t.legs[u.by].count(old, mine.res)
	u.show(e, state{hold: mine, also: other, member: wild || e.member})
	u.endure(e, res, gen, had)
}

// again makes clients get e once more, although it has not changed: that reverts the error that
// they got for its name, which they remember until then (C16, D15).
func (u *turn) again(e *entry) {
	s := state{hold: e.hold, also: e.also, member: e.member}
	same := *e.res
	s.res = &same
	for _, h := range e.holds() {
		if h.leg != s.leg && h.res == e.res {
			other := h
			other.res = s.res
			s.also = &other
		}
	}
	u.set(e.name, s)
	if one := u.table.errored.names[e.name]; one != nil {
		one.from = 0
	}
}

// drop releases the stream's copy of e, if it has one. A copy of another stream stays (D11).
func (u *turn) drop(e *entry) {
	if e.denied && e.leg == u.by {
		u.table.unhideLocked(e.name)
		u.absent(e.name)
		return
	}
	u.leave(e, state{noticed: u.by == u.table.wild.leg})
}

// leave releases the stream's copy of e, if it has one, and sets e to last, unless another stream
// has a copy, too.
func (u *turn) leave(e *entry, last state) {
	t, h := u.table, e.heldBy(u.by)
	if h == nil {
		return
	}
	gen, had, seen := t.gen, e.ttl(), e.leg == u.by
	t.legs[u.by].count(h.res, nil)
	t.legs[u.by].guard.spare(e.name)
	rest := e.besides(u.by)
	if rest == nil {
		u.set(e.name, last)
		return
	}
	u.show(e, state{hold: *rest, member: rest.leg == t.wild.leg})
	if seen {
		u.tellLife(e, gen, had, false)
	}
}

// remove records that the stream's control plane has no resource of a name.
func (u *turn) remove(spelled string) {
	t, name := u.table, resource.Canonical(spelled)
	delete(t.legs[u.by].assumed, name)
	if t.legs[u.by].guard.has(name) {
		return
	}
	gen := t.gen
	if e := t.entries[name]; e != nil && (e.res != nil || e.denied) {
		u.drop(e)
	} else if w := t.wants[name]; w != nil && w.leg == u.by && !t.knowsLocked(name) {
		u.absent(name)
	}
	t.unhideLocked(name)
	if t.gen > gen {
		t.spelledByOriginLocked(name, spelled)
	}
	if w := t.wants[name]; w != nil && w.leg == u.by {
		t.answerGlobLocked(name, u.woken)
	}
}

// show is set, unless clients see no difference.
func (u *turn) show(e *entry, s state) {
	if s.res != e.res || s.member != e.member {
		u.set(e.name, s)
		return
	}
	u.table.holdLocked(e, s)
}

// absent makes name one that is known not to exist.
func (u *turn) absent(name string) {
	u.set(name, state{noticed: u.by == u.table.wild.leg})
}
