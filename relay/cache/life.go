package cache

import (
	"container/heap"
	"time"

	"xdsrelay/relay/resource"
)

// life is the extra state of a copy with a TTL. It outlives a TTL that was withdrawn, because
// clients have to be notified of that.
type life struct {
	entry   *entry
	ttl     time.Duration // as the control plane gave it last; 0: withdrawn
	expires time.Time     // counted from then; zero: withdrawn
	at      int           // index in Table.deadlines; -1: none

	// The rest is for the copy that clients see, which is listed in Table.beats. noted is the note
	// that sends it last. Since the note life.retold, clients that support TTLs must be sent the
	// resource itself with it, and not just a heartbeat, because the TTL changed, is the first one,
	// or was withdrawn (F2).
	listed        bool
	noted, retold uint64
	beats         link[entry]
}

// lifeSize estimates the memory of the TTL state of a copy, in bytes.
const lifeSize = 120

func beatsLink(e *entry) *link[entry] { return &e.life.beats }

// deadlines are the TTL states that expire, the next one first: a heap.
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

// ttl is the TTL of e that clients know, 0 if none.
func (e *entry) ttl() time.Duration {
	if e == nil || e.life == nil {
		return 0
	}
	return e.life.ttl
}

// endure applies what the stream delivered about the TTL of its copy of e: it is said.TTL from now
// on, or there is none. gen is the table's generation before that, and had the TTL that clients
// knew.
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

// tellLife makes a note of the TTL of e, which was had before. A change since generation gen
// carries it anyway; otherwise a different TTL is sent with the resource, and an equal one, or one
// from a heartbeat, as a heartbeat.
func (u *turn) tellLife(e *entry, gen uint64, had time.Duration, heartbeat bool) {
	t, now, changed := u.table, e.ttl(), u.table.gen > gen
	if now == 0 && (changed || had == 0) {
		return
	}
	if e.life == nil {
		t.newLifeLocked(e, &e.hold) // withdrawn
	}
	t.beatLocked(e, u.woken)
	if !changed && had != now && !(heartbeat && had > 0) {
		e.life.retold = t.notes
	}
}

// beat applies a heartbeat, if the stream has the resource that it is about (F6).
func (u *turn) beat(res *resource.Resource) {
	e := u.table.entries[res.Key]
	if e == nil {
		return
	}
	h := e.heldBy(u.by)
	if h == nil || res.Version != "" && res.Version != h.version {
		return
	}
	if u.table.forgetRemarksLocked(e.name) && e.res != nil { // it exists after all (C16)
		u.again(e)
	}
	u.table.legs[u.by].guard.spare(e.name)
	u.endure(e, res, u.table.gen, e.ttl())
}

func (t *Table) newLifeLocked(e *entry, h *hold) {
	h.life = &life{entry: e, at: -1}
	t.bytes += lifeSize
}

// lastsLocked sets the remaining time of l; 0 means that it has no end.
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

// hideLifeLocked removes l, which clients saw, from the list of notes.
func (t *Table) hideLifeLocked(l *life) {
	if l.listed {
		t.beats.remove(l.entry)
		l.listed = false
	}
}

// endLifeLocked forgets the TTL state of a copy that is being removed.
func (t *Table) endLifeLocked(l *life) {
	t.hideLifeLocked(l)
	if l.at >= 0 {
		heap.Remove(&t.deadlines, l.at)
	}
	t.bytes -= lifeSize
}

// armLocked sets the timer to the first deadline. It may fire early: then it is set again.
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

// lapse removes expired resources, as the control plane would: TTLs expire whether it is reachable
// or not (F5, C14).
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
			t.legs[h.leg].version = "" // the content is no longer what the control plane sent
			u := turn{table: t, by: h.leg, first: all.first, woken: woken}
			u.drop(l.entry)
			all.by = h.leg
			all.changed += u.changed // if another stream has a copy
			all.removed += u.removed
		}
	}
	t.recordLocked(&all, now, CauseExpired, "")
}

// stopTimers ends the timers permanently; the group must have ended.
func (t *Table) stopTimers() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, timer := range []*time.Timer{t.lapses, t.holding} {
		if timer != nil {
			timer.Stop()
		}
	}
}
