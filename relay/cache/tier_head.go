package cache

import (
	"slices"
	"time"

	"xdsrelay/relay/cache/confidence"
	"xdsrelay/relay/cache/link"
	"xdsrelay/relay/resource"
)

// The nodes of a tier agree on the newest content of each type of a key: the tier head. A node may
// learn of a head before it has the content, because that arrives another way. A client arriving
// with newer content would then be rolled back (K12). So the table exposes a deadline until which
// it counts as behind, and fanout delays clients that present versions.

// TierHead is the tier head of a type: what the tier agrees is its newest content.
type TierHead struct {
	// Digest identifies the content; see [TableDigest].
	Digest resource.Digest
	// Version is the one that SotW clients of the wildcard get for it on some node.
	Version string
	// Own says that this node has written it for its own content: it may have more by now, never
	// less.
	Own bool
	// At is when the owner of the key wrote it, by the owner's clock.
	At time.Time
	// Trace is the trace context of the update that made it, as W3C's traceparent; empty if that is
	// unknown or not traced.
	Trace string
}

const (
	// pastKept is how many of its former digests a table remembers: if the table is newer than the
	// head, it had the head's content a moment ago.
	pastKept = 16
	// versionsKept is how many versions of unreached heads a table remembers.
	versionsKept = 4
	// byNameWait bounds how long a table without a wildcard counts as behind while the control plane
	// can bring what is newer: nodes then have what their own clients ask for, and a digest of
	// something else proves nothing; provenLocked covers what does.
	byNameWait = 500 * time.Millisecond
)

// headState compares a table with the tier head. The table's mu guards it.
type headState struct {
	head  TierHead
	since time.Time // when this head arrived; zero: there is none
	// now is the digest of the present content. headState.reached says that it has been the digest
	// of a head while it is the present one: then other heads are newer.
	now     resource.Digest
	reached bool
	past    []resource.Digest // former ones, newest last
	// empty says that the table is known to be empty: before its first answer it has no content,
	// either.
	empty bool
	// later says that the head replaced another one while the table had its present content. The
	// first head that a table is compared with may be old, and one that arrived before the content
	// may be older than that: if the owner of the key cannot write to Redis, the head there stays.
	later bool
	// versions are those of the heads since one was reached, newest last.
	versions  []string
	behind    bool
	waiting   map[*Subscription]struct{} // for the end of behind
	headTrace headTrace
}

// ObserveHead records the tier head of a type. It does nothing without [Config.HeadWait].
func (g *Group) ObserveHead(typ *resource.Type, a TierHead) {
	if g.private || g.cache.cfg.HeadWait <= 0 {
		return
	}
	now := time.Now()
	t := g.observeHeadEarly(typ, a)
	if t == nil {
		return
	}
	woken := make(map[*Subscription]struct{})
	t.mu.Lock()
	t.observeHeadLocked(a, now, woken)
	t.mu.Unlock()
	g.cache.wake(woken)
	g.signalNeeds()
}

// maxEarlyHeads bounds the types of a group for which heads are kept without a table.
const maxEarlyHeads = 256

// observeHeadEarly returns the table of a type. If there is none yet, the head is kept for it.
func (g *Group) observeHeadEarly(typ *resource.Type, a TierHead) *Table {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tables[typ.URL]; t != nil {
		return t
	}
	if g.tierHeads == nil {
		g.tierHeads = make(map[string]TierHead)
	}
	if _, known := g.tierHeads[typ.URL]; known || len(g.tierHeads) < maxEarlyHeads {
		g.tierHeads[typ.URL] = a
	}
	return nil
}

// adoptHeadLocked gives a new table the head of its type. g.mu must be held.
func (g *Group) adoptHeadLocked(t *Table) {
	a, known := g.tierHeads[t.Type.URL]
	if !known {
		return
	}
	delete(g.tierHeads, t.Type.URL)
	t.observeHeadLocked(a, time.Now(), nil) // no other goroutine knows the table
}

// observeHeadLocked takes a head that arrived at now. t.mu must be held.
func (t *Table) observeHeadLocked(head TierHead, now time.Time, woken map[*Subscription]struct{}) {
	a := t.tierHead
	if a == nil {
		return
	}
	if again := a.head; !a.since.IsZero() {
		a.head.At = head.At // another owner may have written the same head since
		if again.At = head.At; again == head {
			return
		}
	}
	if a.since.IsZero() || a.head.Digest != head.Digest {
		a.since, a.later = now, !a.since.IsZero()
	}
	a.head = head
	if len(a.versions) == versionsKept {
		a.versions = slices.Delete(a.versions, 0, 1)
	}
	a.versions = append(a.versions, head.Version)
	t.noteHeadTraceLocked(head, now)
	a.compare(woken)
}

// recheckHeadLocked compares the present content with the head. It must be called after each change
// of the content, with t.mu held.
func (t *Table) recheckHeadLocked(woken map[*Subscription]struct{}) {
	a := t.tierHead
	if a == nil {
		return
	}
	now, empty := t.store.All(), a.empty
	a.empty = now == (resource.Digest{}) && t.demand.WildcardAnswered()
	if now == a.now {
		return
	}
	if empty || a.now != (resource.Digest{}) {
		if len(a.past) == pastKept {
			a.past = slices.Delete(a.past, 0, 1)
		}
		a.past = append(a.past, a.now)
	}
	a.now, a.reached, a.later = now, false, false
	if a.headTrace.trace != "" && now == a.head.Digest {
		t.reachedHeadLocked(time.Now())
	}
	a.compare(woken)
}

// compare determines whether the table is behind, and wakes the subscriptions that wait for news of
// that.
func (a *headState) compare(woken map[*Subscription]struct{}) {
	a.reached = a.reached || !a.since.IsZero() && a.now == a.head.Digest
	switch {
	case a.since.IsZero():
	case a.head.Own:
		a.behind, a.versions = false, a.versions[:0]
	case a.now == a.head.Digest:
		a.behind, a.versions = false, a.versions[:0]
	default:
		a.behind = a.reached || !slices.Contains(a.past, a.head.Digest)
	}
	for s := range a.waiting {
		woken[s] = struct{}{}
	}
	clear(a.waiting)
}

// ahead reports whether the table is newer than a tier head of another node.
func (a *headState) ahead() bool {
	return a != nil && !a.since.IsZero() && !a.behind && !a.head.Own && a.now != a.head.Digest
}

// writtenLocked is when the tier head was written, at the latest, if the table has the content that
// it describes; otherwise zero.
func (t *Table) writtenLocked() time.Time {
	a := t.tierHead
	switch {
	case a == nil || a.since.IsZero() || t.store.All() != a.head.Digest:
		return time.Time{}
	case a.head.At.After(a.since):
		return a.since // the clock of the owner is ahead
	}
	return a.head.At
}

// outdatedLocked reports whether other nodes are certain to have newer content, provided that they
// have what the tier head describes: the head arrived after the table's content, or that was
// restored, or is from before the key was idle or the process slept. A head that was written before
// such content was confirmed proves nothing: the owner cannot write to Redis.
func (t *Table) outdatedLocked() bool {
	a := t.tierHead
	switch {
	case a == nil || !a.behind:
		return false
	case a.later:
		return true
	}
	now, written := time.Now(), a.head.At.Add(link.Noticed)
	for by := range t.streams {
		if t.streams[by].confidence.Missed() && (a.head.At.IsZero() || !t.streamAsOfLocked(by, now).After(written)) {
			return true
		}
	}
	return false
}

// behindUntilLocked is until when the table counts as behind; zero if it does not. byName says that
// clients that ask by name wait as long as all others.
func (t *Table) behindUntilLocked(now time.Time) (until time.Time, byName bool) {
	a := t.tierHead
	if a == nil || !a.behind {
		return time.Time{}, false
	}
	byName = t.provenLocked() || t.openLocked(now) || t.group.unreachable(anyStream)
	wait := t.group.cache.cfg.HeadWait
	if !t.demand.Wildcard().Demanded() && !byName {
		wait = min(wait, byNameWait)
	}
	return a.since.Add(wait), byName
}

// openLocked reports whether a control plane that was asked for everything on a new stream may still
// answer.
func (t *Table) openLocked(now time.Time) bool {
	return slices.ContainsFunc(t.streams, func(l typeStreamState) bool { return l.confidence.Is(confidence.Open, now) })
}

// provenLocked reports whether the tier head proves that the table is behind, although no client
// has the wildcard: it was restored from all that an owner of the key had at one time, and the head
// is of another time, which is later because heads are written first.
func (t *Table) provenLocked() bool {
	return t.tierHead != nil && t.tierHead.behind && !t.tierHead.head.Own && t.pendingRestore != nil && t.pendingRestore.snapshot.Recorded && len(t.streams) == 1 &&
		t.streams[0].confidence.FromLastGood() && t.pendingRestore.digest[0] != t.tierHead.head.Digest
}

// Await makes sure that the clients of w's subscription are woken when the table has changed, or
// another head has arrived. It returns false if the table is not behind any more, so that there is
// nothing to wait for.
func (t *Table) Await(w *Watcher) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, s := t.tierHead, w.sub
	if a == nil || !a.behind || s == nil {
		return false
	}
	if a.waiting == nil {
		a.waiting = make(map[*Subscription]struct{})
	}
	a.waiting[s] = struct{}{}
	return true
}

// Ahead reports whether a version, as SotW clients of the wildcard get it, is that of a head which
// the table has not reached.
func (t *Table) Ahead(version string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.tierHead != nil && t.tierHead.behind && slices.Contains(t.tierHead.versions, version)
}

// Version is the version that w gets for all that it sees (D7).
func (t *Table) Version(w *Watcher) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if w.sub == nil {
		return ""
	}
	version, _ := t.versionLocked(w.sub, resource.Digest{})
	return version
}
