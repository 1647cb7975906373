package cache

import (
	"container/heap"
	"time"

	"xdsrelay/relay/resource"
)

// ttlState is the extra state of a copy with a TTL. It outlives a TTL that was withdrawn, because
// clients have to be notified of that.
type ttlState struct {
	entry   *entry
	ttl     time.Duration // as the control plane gave it last; 0: withdrawn
	expires time.Time     // counted from then; zero: withdrawn
	at      int           // index in Table.deadlines; -1: none

	// The rest is for the copy that clients see, which is listed in Table.heartbeats. noted is the
	// note that sends it last. Since the note ttlState.ttlChangedAt, clients that support TTLs must
	// be sent the resource itself with it, and not just a heartbeat, because the TTL changed, is
	// the first one, or was withdrawn (F2).
	listed              bool
	noted, ttlChangedAt uint64
	heartbeats          link[entry]
}

// ttlStateSize estimates the memory of the TTL state of a copy, in bytes.
const ttlStateSize = 120

func heartbeatLink(e *entry) *link[entry] { return &e.ttlState.heartbeats }

// deadlines are the TTL states that expire, the next one first: a heap.
type deadlines []*ttlState

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].expires.Before(d[j].expires) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].at, d[j].at = i, j
}

func (d *deadlines) Push(x any) {
	l := x.(*ttlState)
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
	if e == nil || e.ttlState == nil {
		return 0
	}
	return e.ttlState.ttl
}

// refreshTTL applies what the stream delivered about the TTL of its copy of e: it is said.TTL from
// now on, or there is none. gen is the table's generation before that, and had the TTL that clients
// knew.
func (u *updateTxn) refreshTTL(e *entry, said *resource.Resource, gen uint64, had time.Duration) {
	t, h := u.table, e.copyFrom(u.by)
	if h.ttlState == nil && said.TTL > 0 {
		t.newTTLStateLocked(e, h)
	}
	if h.ttlState != nil {
		t.setTTLLocked(h.ttlState, said.TTL)
	}
	if e.stream == u.by {
		u.noteTTL(e, gen, had, said.Heartbeat())
	}
}

// noteTTL makes a note of the TTL of e, which was had before. A change since generation gen
// carries it anyway; otherwise a different TTL is sent with the resource, and an equal one, or one
// from a heartbeat, as a heartbeat.
func (u *updateTxn) noteTTL(e *entry, gen uint64, had time.Duration, heartbeat bool) {
	t, now, changed := u.table, e.ttl(), u.table.gen > gen
	if now == 0 && (changed || had == 0) {
		return
	}
	if e.ttlState == nil {
		t.newTTLStateLocked(e, &e.resourceCopy) // withdrawn
	}
	t.heartbeatLocked(e, u.woken)
	if !changed && had != now && !(heartbeat && had > 0) {
		e.ttlState.ttlChangedAt = t.notes
	}
}

// heartbeat applies a heartbeat, if the stream has the resource that it is about (F6).
func (u *updateTxn) heartbeat(res *resource.Resource) {
	e := u.table.entries[res.Key]
	if e == nil {
		return
	}
	h := e.copyFrom(u.by)
	if h == nil || res.Version != "" && res.Version != h.version {
		return
	}
	if u.table.forgetErrorsLocked(e.name) && e.res != nil { // it exists after all (C16)
		u.again(e)
	}
	u.table.streams[u.by].guard.release(e.name)
	u.refreshTTL(e, res, u.table.gen, e.ttl())
}

func (t *Table) newTTLStateLocked(e *entry, h *resourceCopy) {
	h.ttlState = &ttlState{entry: e, at: -1}
	t.bytes += ttlStateSize
}

// setTTLLocked sets the remaining time of l; 0 means that it has no end.
func (t *Table) setTTLLocked(l *ttlState, ttl time.Duration) {
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

// heartbeatLocked gives e a new note, and marks the subscriptions that can see it.
func (t *Table) heartbeatLocked(e *entry, woken map[*Subscription]struct{}) {
	t.unlistTTLStateLocked(e.ttlState)
	t.notes++
	e.ttlState.noted, e.ttlState.listed = t.notes, true
	t.heartbeats.push(e)
	mark := func(s *Subscription) {
		s.heartbeat = t.notes
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

// unlistTTLStateLocked removes l, which clients saw, from the list of notes.
func (t *Table) unlistTTLStateLocked(l *ttlState) {
	if l.listed {
		t.heartbeats.remove(l.entry)
		l.listed = false
	}
}

// endTTLStateLocked forgets the TTL state of a copy that is being removed.
func (t *Table) endTTLStateLocked(l *ttlState) {
	t.unlistTTLStateLocked(l)
	if l.at >= 0 {
		heap.Remove(&t.deadlines, l.at)
	}
	t.bytes -= ttlStateSize
}

// armLocked sets the timer to the first deadline. It may fire early: then it is set again.
func (t *Table) armLocked() {
	next := t.deadlines.next()
	if next.IsZero() || t.group.over() {
		return
	}
	if t.ttlTimer == nil {
		t.ttlTimer = time.AfterFunc(time.Until(next), t.expireTTLs)
	} else {
		t.ttlTimer.Reset(time.Until(next))
	}
}

// expireTTLs removes expired resources, as the control plane would: TTLs expire whether it is
// reachable or not (F5, C14).
func (t *Table) expireTTLs() {
	woken := make(map[*Subscription]struct{})
	t.mu.Lock()
	t.expireTTLsLocked(time.Now(), woken)
	t.recheckHeadLocked(woken)
	t.armLocked()
	t.mu.Unlock()
	t.group.changed()
	t.group.cache.wake(woken)
}

func (t *Table) expireTTLsLocked(now time.Time, woken map[*Subscription]struct{}) {
	all := updateTxn{table: t, first: t.gen + 1}
	for len(t.deadlines) > 0 && !t.deadlines[0].expires.After(now) {
		l := t.deadlines[0]
		for _, h := range l.entry.copies() {
			if h.ttlState != l {
				continue
			}
			t.fed.Expired++
			t.streams[h.stream].version = "" // the content is no longer what the control plane sent
			u := updateTxn{table: t, by: h.stream, first: all.first, woken: woken}
			u.drop(l.entry)
			all.by = h.stream
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
	for _, timer := range []*time.Timer{t.ttlTimer, t.holding} {
		if timer != nil {
			timer.Stop()
		}
	}
}
