package cache

import (
	"slices"
	"time"

	"xdsrelay/relay/cache/confidence"
	"xdsrelay/relay/cache/link"
	"xdsrelay/relay/cache/tierhead"
	"xdsrelay/relay/resource"
)

// A table is compared with the tier head (see package tierhead). It exposes a deadline until which it
// counts as behind, and fanout delays clients that present versions (K12).

// TierHead is the tier head of a type: what the tier agrees is its newest content.
type TierHead = tierhead.Head

// byNameWait bounds how long a table without a wildcard counts as behind while the control plane can
// bring what is newer: nodes then have what their own clients ask for, and a digest of something else
// proves nothing; proven covers what does.
const byNameWait = 500 * time.Millisecond

// headState is the comparison of a table with the tier head, and the clients that wait for news of it.
// The table's mu guards it.
type headState struct {
	*tierhead.Comparison
	waiting   map[*Subscription]struct{} // until the table is no longer behind
	headTrace headTrace
}

// wake wakes the subscriptions that wait for news.
func (a *headState) wake(woken map[*Subscription]struct{}) {
	for s := range a.waiting {
		woken[s] = struct{}{}
	}
	clear(a.waiting)
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
	t.core.observeHead(a, now, woken)
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
	t.core.observeHead(a, time.Now(), nil) // no other goroutine knows the table
}

// observeHead takes a head that arrived at now.
func (t *core) observeHead(head TierHead, now time.Time, woken map[*Subscription]struct{}) {
	a := &t.tierHead
	if a.Comparison == nil || !a.Observe(head, now) {
		return
	}
	t.noteHeadTrace(head, now)
	a.wake(woken)
}

// recheckHead compares the present content with the head. It must be called after each change of the
// content.
func (t *core) recheckHead(woken map[*Subscription]struct{}) {
	a := &t.tierHead
	if a.Comparison == nil || !a.Content(t.store.All(), t.demand.WildcardAnswered()) {
		return
	}
	if a.headTrace.trace != "" && a.Reached() {
		t.reachedHead(time.Now())
	}
	a.wake(woken)
}

// behind reports whether the tier head is about content that is newer than the table's.
func (t *core) behind() bool { return t.tierHead.Standing().Behind() }

// behindSince returns since when the tier has newer content for clients of the wildcard; zero if it has
// none, or since less than [Config.HeadWait]: content of that age is on its way. Without a wildcard,
// nodes have what their own clients subscribe to, and a difference proves nothing.
func (t *Table) behindSince(now time.Time) time.Time {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.core.behind() || !t.core.demand.Wildcard().Demanded() || now.Sub(t.core.tierHead.Since()) < t.group.cache.cfg.HeadWait {
		return time.Time{}
	}
	return t.core.tierHead.Since()
}

// outdated reports whether other nodes are certain to have newer content, provided that they
// have what the tier head describes: the head arrived after the table's content, or that was
// restored, or is from before the key was idle or the process slept. A head that was written before
// such content was confirmed proves nothing: the owner cannot write to Redis.
func (t *core) outdated() bool {
	switch standing := t.tierHead.Standing(); {
	case !standing.Behind():
		return false
	case standing >= tierhead.Overtaken:
		return true
	}
	head, _ := t.tierHead.Head()
	now, written := time.Now(), head.At.Add(link.Noticed)
	for by := range t.streams {
		if t.streams[by].confidence.Missed() && (head.At.IsZero() || !t.streamAsOf(by, now).After(written)) {
			return true
		}
	}
	return false
}

// lag is how long the table counts as behind; the zero value if it does not.
func (t *core) lag(now time.Time) (none Lag) {
	if !t.behind() {
		return none
	}
	byName := t.proven() || t.open(now) || t.group.unreachable(anyStream)
	wait := t.group.cache.cfg.HeadWait
	if !t.demand.Wildcard().Demanded() && !byName {
		wait = min(wait, byNameWait)
	}
	return Lag{t.tierHead.Since().Add(wait), byName}
}

// open reports whether a control plane that was asked for everything on a new stream may still
// answer.
func (t *core) open(now time.Time) bool {
	return slices.ContainsFunc(t.streams, func(l typeStreamState) bool { return l.confidence.Is(confidence.Open, now) })
}

// proven reports whether the tier head proves that the table is behind, although no client
// has the wildcard: it had what the head before described, or it was restored from all that an owner of
// the key had at one time, and the head is of another time, which is later because heads are written
// first.
func (t *core) proven() bool {
	if t.tierHead.Standing() == tierhead.Left {
		return true
	}
	head, _ := t.tierHead.Head()
	return t.behind() && t.pendingRestore != nil && t.pendingRestore.snapshot.Recorded && len(t.streams) == 1 &&
		t.streams[0].confidence.FromLastGood() && t.pendingRestore.digest[0] != head.Digest
}

// Await makes sure that the clients of w's subscription are woken when the table has changed, or
// another head has arrived. It returns false if the table is not behind any more, so that there is
// nothing to wait for.
func (t *Table) Await(w *Watcher) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, s := &t.core.tierHead, w.sub
	if !t.core.behind() || s == nil {
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
	return t.core.tierHead.Awaits(version)
}

// Version is the version that w gets for all that it sees (D7).
func (t *Table) Version(w *Watcher) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if w.sub == nil {
		return ""
	}
	version, _ := t.core.version(w.sub, nil, resource.Digest{})
	return version
}
