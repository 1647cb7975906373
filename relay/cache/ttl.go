package cache

import (
	"time"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// refreshTTL applies what the stream delivered about the TTL of its copy of e: it is said.TTL from
// now on, or there is none. gen is the table's generation before that, and had the TTL that clients
// knew.
func (u *updateTxn) refreshTTL(e *table.Entry, said *resource.Resource, gen uint64, had time.Duration) {
	if c := e.CopyFrom(u.by); said.TTL == 0 && had == 0 && c != nil && c.TTLState == nil {
		return // as for most, which is worth a look at the clock
	}
	if u.table.store.SetTTL(e, u.by, said.TTL, time.Now()) {
		u.table.arm()
	}
	if e.Stream == u.by {
		u.noteTTL(e, gen, had, said.Heartbeat())
	}
}

// noteTTL makes a note of the TTL of e, which was had before. A change since generation gen
// carries it anyway; otherwise a different TTL is sent with the resource, and an equal one, or one
// from a heartbeat, as a heartbeat.
func (u *updateTxn) noteTTL(e *table.Entry, gen uint64, had time.Duration, heartbeat bool) {
	t, now, changed := u.table, e.TTL(), u.table.store.Gen() > gen
	if now == 0 && (changed || had == 0) {
		return
	}
	note := t.store.NoteTTL(e, !changed && had != now && !(heartbeat && had > 0))
	t.markNote(e, note, u.woken)
}

// heartbeat applies a heartbeat, if the stream has the resource that it is about (F6).
func (u *updateTxn) heartbeat(res *resource.Resource) {
	e := u.table.store.Get(res.Key)
	if e == nil {
		return
	}
	h := e.CopyFrom(u.by)
	if h == nil || res.Version != "" && res.Version != h.Version {
		return
	}
	if u.table.notes.Forget(e.Name) && e.Res != nil { // it exists after all (C16)
		u.again(e)
	}
	u.table.streams[u.by].guard.Release(e.Name)
	u.refreshTTL(e, res, u.table.store.Gen(), e.TTL())
}

// markNote marks the subscriptions that can see a note of the TTL of e.
func (t *core) markNote(e *table.Entry, note uint64, woken map[*Subscription]struct{}) {
	mark := func(s *Subscription) {
		s.heartbeat = note
		woken[s] = struct{}{}
	}
	if e.Member {
		for s := range t.demand.Wildcard().Subscribers().All() {
			mark(s)
		}
	}
	named := t.named(e, e.Res.Aliases)
	for s := range named.All() {
		mark(s)
	}
}

// armLocked sets the timer to the first deadline. It may fire early: then it is set again.
func (t *core) arm() {
	next := t.store.Deadline()
	if next.IsZero() || t.group.over() {
		return
	}
	if t.ttlTimer == nil {
		t.ttlTimer = time.AfterFunc(time.Until(next), t.shell.expireTTLs)
	} else {
		t.ttlTimer.Reset(time.Until(next))
	}
}

// expireTTLs removes expired resources, as the control plane would: TTLs expire whether it is
// reachable or not (F5, C14).
func (t *Table) expireTTLs() {
	woken := make(map[*Subscription]struct{})
	t.mu.Lock()
	t.core.expireTTLs(time.Now(), woken)
	t.core.recheckHead(woken)
	t.core.arm()
	t.mu.Unlock()
	t.group.changed()
	t.group.cache.wake(woken)
}

func (t *core) expireTTLs(now time.Time, woken map[*Subscription]struct{}) {
	all := updateTxn{table: t, first: t.store.Gen() + 1}
	for l := t.store.Due(now); l != nil; l = t.store.Due(now) {
		for _, h := range l.Entry.Copies() {
			if h.TTLState != l {
				continue
			}
			t.fed.Expired++
			t.streams[h.Stream].forgetVersion() // the content is no longer what the control plane sent
			u := updateTxn{table: t, by: h.Stream, first: all.first, woken: woken}
			u.drop(l.Entry)
			all.by = h.Stream
			all.changed += u.changed // if another stream has a copy
			all.removed += u.removed
			all.edits = append(all.edits, u.edits...)
		}
	}
	t.record(&all, now, CauseExpired, "")
}

// stopTimers ends the timers permanently; the group must have ended.
func (t *Table) stopTimers() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, timer := range []*time.Timer{t.core.ttlTimer, t.core.holding} {
		if timer != nil {
			timer.Stop()
		}
	}
}
