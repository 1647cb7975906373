package cache

import (
	"container/heap"
	"time"

	"xdsrelay/relay/resource"
)

// life is what a copy of a resource has beside while it has a TTL. It outlasts a
// TTL that was taken back, since clients have to be told that.
type life struct {
	entry   *entry
	ttl     time.Duration // as the origin gave it last; 0: taken back
	expires time.Time     // counted from then; zero: taken back
	at      int           // its place in Table.deadlines; -1: none

	// What follows is for the copy that clients see, which is listed in
	// Table.beats. noted is the note that tells of it last. Since retold, clients
	// that take TTLs have to be sent the resource itself with it, and not just a
	// heartbeat, because the TTL is another, or the first, or gone (F2).
	listed        bool
	noted, retold uint64
	beats         link[entry]
}

// lifeSize is roughly what a life takes, in bytes.
const lifeSize = 120

func beatsLink(e *entry) *link[entry] { return &e.life.beats }

// deadlines are the lives that end, the next one first: a heap.
type deadlines []*life

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].expires.Before(d[j].expires) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].at, d[j].at = i, j
}

func (d *deadlines) Push(x any) {
	l := x.(*life)
	l.at = len(*d)
	*d = append(*d, l)
}

func (d *deadlines) Pop() any {
	last := len(*d) - 1
	l := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	l.at = -1
	return l
}

// next is the first deadline, zero for none.
func (d deadlines) next() time.Time {
	if len(d) == 0 {
		return time.Time{}
	}
	return d[0].expires
}

// ttl is the lifetime that clients know of e, 0 if none.
func (e *entry) ttl() time.Duration {
	if e == nil || e.life == nil {
		return 0
	}
	return e.life.ttl
}

// endure takes in what the leg says about the lifetime of its copy of e: that it
// is said.TTL from now on, or that there is no end. gen is the table's generation
// before that, and had the lifetime that clients knew.
func (u *turn) endure(e *entry, said *resource.Resource, gen uint64, had time.Duration) {
	t, h := u.table, e.heldBy(u.by)
	if h.life == nil && said.TTL > 0 {
		t.newLifeLocked(e, h)
	}
	if h.life != nil {
		t.lastsLocked(h.life, said.TTL)
	}
	if e.leg == u.by {
		u.tellLife(e, gen, had, said.Heartbeat())
	}
}

// tellLife makes a note of the lifetime of e, which was had before. What has
// changed since generation gen is told with it anyway; otherwise it is told with
// the resource where it is another one, and with a heartbeat for which it is not,
// or which is just that.
func (u *turn) tellLife(e *entry, gen uint64, had time.Duration, heartbeat bool) {
	t, now, changed := u.table, e.ttl(), u.table.gen > gen
	if now == 0 && (changed || had == 0) {
		return
	}
	if e.life == nil {
		t.newLifeLocked(e, &e.hold) // taken back
	}
	t.beatLocked(e, u.woken)
	if !changed && had != now && !(heartbeat && had > 0) {
		e.life.retold = t.notes
	}
}

// beat takes in a heartbeat, if the leg holds the resource that it is about (F6).
func (u *turn) beat(res *resource.Resource) {
	e := u.table.entries[res.Key]
	if e == nil {
		return
	}
	h := e.heldBy(u.by)
	if h == nil || res.Version != "" && res.Version != h.version {
		return
	}
	if u.table.forgetRemarksLocked(e.name) && e.res != nil { // it is there after all (C16)
		u.again(e)
	}
	u.table.legs[u.by].guard.spare(e.name)
	u.endure(e, res, u.table.gen, e.ttl())
}

func (t *Table) newLifeLocked(e *entry, h *hold) {
	h.life = &life{entry: e, at: -1}
	t.bytes += lifeSize
}

// lastsLocked sets the time that l has left; 0 means that it has no end.
func (t *Table) lastsLocked(l *life, ttl time.Duration) {
	l.ttl, l.expires = ttl, time.Time{}
	if ttl <= 0 {
		if l.at >= 0 {
			heap.Remove(&t.deadlines, l.at)
		}
		return
	}
	l.expires = time.Now().Add(ttl)
	if l.at < 0 {
		heap.Push(&t.deadlines, l)
	} else {
		heap.Fix(&t.deadlines, l.at)
	}
	t.armLocked()
}

// beatLocked gives e a new note, and marks the subscriptions that can see it.
func (t *Table) beatLocked(e *entry, woken map[*Subscription]struct{}) {
	t.hideLifeLocked(e.life)
	t.notes++
	e.life.noted, e.life.listed = t.notes, true
	t.beats.push(e)
	mark := func(s *Subscription) {
		s.beat = t.notes
		woken[s] = struct{}{}
	}
	if e.member {
		for s := range t.wild.subs.all() {
			mark(s)
		}
	}
	named := t.namedLocked(e, e.res.Aliases)
	for s := range named.all() {
		mark(s)
	}
}

// hideLifeLocked takes l, which clients saw, from the list of notes.
func (t *Table) hideLifeLocked(l *life) {
	if l.listed {
		t.beats.remove(l.entry)
		l.listed = false
	}
}

// endLifeLocked forgets a lifetime whose copy is about to go.
func (t *Table) endLifeLocked(l *life) {
	t.hideLifeLocked(l)
	if l.at >= 0 {
		heap.Remove(&t.deadlines, l.at)
	}
	t.bytes -= lifeSize
}

// armLocked sets the timer to the first deadline. It may be early: then it is
// set again.
func (t *Table) armLocked() {
	next := t.deadlines.next()
	if next.IsZero() || t.group.over() {
		return
	}
	if t.lapses == nil {
		t.lapses = time.AfterFunc(time.Until(next), t.lapse)
	} else {
		t.lapses.Reset(time.Until(next))
	}
}

// lapse removes what has come to its end, as the origin would have: whether it
// is there or not, a lifetime runs on (F5, C14).
func (t *Table) lapse() {
	woken := make(map[*Subscription]struct{})
	t.mu.Lock()
	t.lapseLocked(time.Now(), woken)
	t.keepUpLocked(woken)
	t.armLocked()
	t.mu.Unlock()
	t.group.changed()
	t.group.cache.wake(woken)
}

func (t *Table) lapseLocked(now time.Time, woken map[*Subscription]struct{}) {
	all := turn{table: t, first: t.gen + 1}
	for len(t.deadlines) > 0 && !t.deadlines[0].expires.After(now) {
		l := t.deadlines[0]
		for _, h := range l.entry.holds() {
			if h.life != l {
				continue
			}
			t.fed.Expired++
			t.legs[h.leg].version = "" // it no longer holds what the origin sent
			u := turn{table: t, by: h.leg, first: all.first, woken: woken}
			u.drop(l.entry)
			all.by = h.leg
			all.changed += u.changed // where another leg has it
			all.removed += u.removed
		}
	}
	t.recordLocked(&all, now, CauseExpired, "")
}

// stopTimers ends the timers for good; the group has to be over.
func (t *Table) stopTimers() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, timer := range []*time.Timer{t.lapses, t.holding} {
		if timer != nil {
			timer.Stop()
		}
	}
}
