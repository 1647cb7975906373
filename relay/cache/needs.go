package cache

import (
	"slices"
	"time"

	"xdsrelay/relay/cache/confidence"
)

// Other nodes of a tier may have what this node lacks while nothing arrives from the control plane.
// A feed reports what it lacks and the state of its stream; it is not the cache that decides which
// nodes to ask, and when.

// Link is the state of the connection with the control plane, or with the node that owns the key.
type Link uint8

// The states of a Link.
const (
	// LinkConnecting: the first attempt is under way, or there is a stream from before the process
	// slept that has not answered since.
	LinkConnecting Link = iota
	// LinkUp: there is a stream, and the control plane can be reached over it.
	LinkUp
	// LinkDown: there is no stream, or the owner of the key cannot reach the control plane.
	LinkDown
)

// Need is what a stream lacks that other nodes may have.
type Need uint8

// The kinds of a Need, the most urgent one last.
const (
	// NeedNothing: everything with interest is known, as far as this node can determine.
	NeedNothing Need = iota
	// NeedNewer: something was restored, is from before the key was idle, or is behind the tier
	// head, so other nodes may have newer content.
	NeedNewer
	// NeedContent: there is interest in something of which nothing is known.
	NeedContent
	// NeedFirst: the control plane has to be asked for something of which this node may know less
	// than other nodes do; they are asked before it. See [Feed.Asked].
	NeedFirst
)

// Needs is signaled when what [Feed.Need] returns may have changed. One signal covers everything
// since the last one was received.
func (f *Feed) Needs() <-chan struct{} { return f.needs }

// signalNeeds signals all feeds of the group; see [Feed.Needs].
func (g *Group) signalNeeds() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.streams {
		if c := g.streams[i].needs; c != nil {
			signal(c)
		}
	}
}

// Need returns what the stream lacks, and its connection state. The cost is proportional to the
// number of types of the group.
func (f *Feed) Need() (n Need, l Link) {
	up := f.group.upstreamOf(f.stream)
	switch {
	case up.Err != nil:
		l = LinkDown
	case f.group.unheardSinceSleep(f.stream):
	case up.Connected && !f.group.compares():
		return NeedNothing, LinkUp
	case up.Connected:
		l = LinkUp
	}
	for _, t := range f.group.Tables() {
		n = max(n, t.need(f.stream))
	}
	if l == LinkUp && n != NeedFirst {
		n = NeedNothing
	}
	return n, l
}

// AwaitOthers records that there may be other nodes. Where the control plane cannot be reached,
// clients of content that may be old wait for [Feed.Compared], too: for no longer than
// [Config.Hold].
func (f *Feed) AwaitOthers() {
	f.setCompares(time.Now())
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.group.streams[f.stream].link.Others.Exist = true
}

// ComparesSince is since when clients of content that may be old wait for [Feed.Compared]: since the
// last call of [Feed.AwaitOthers], or since the process ran again after it slept. It is zero if they
// do not wait. Questions to other nodes that began before it do not count.
func (f *Feed) ComparesSince() time.Time {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	return f.group.streams[f.stream].link.Others.AwaitedSince
}

// Compared records that other nodes have nothing newer, as far as they can be asked. Clients still wait for a
// control plane that could not be reached before the process slept: for no longer than [Config.Hold].
func (f *Feed) Compared() {
	if f.setCompares(time.Time{}) && f.group.isCutOff(f.stream) {
		f.group.release(f.stream)
	}
}

func (g *Group) isCutOff(stream int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.streams[stream].link.IsCutOff()
}

// setCompares sets [Feed.ComparesSince], and reports whether clients waited before.
func (f *Feed) setCompares(since time.Time) (was bool) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	others := &f.group.streams[f.stream].link.Others
	was, others.AwaitedSince = others.Awaited(), since
	return was
}

// awaitOthers makes clients of content that may be old wait until other nodes are asked again, and
// reports whether they do: there are others, and the control plane of the stream cannot be reached. It
// may be called with a table's mu held.
func (g *Group) awaitOthers(stream int, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.streams[stream].link.AwaitOthers(now) {
		return false
	}
	if c := g.streams[stream].needs; c != nil {
		signal(c)
	}
	return true
}

// mayImprove reports whether a stream may soon have something newer than the last known good: from
// its control plane, or from other nodes.
func (g *Group) mayImprove(stream int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.streams[stream].link.MayImprove()
}

// Unreachable reports whether the control plane of any stream of the group cannot be reached. That
// of an idle key is unknown.
func (g *Group) Unreachable() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.streams, func(l streamState) bool { return l.link.HasFailed() })
}

func (t *Table) need(by int) Need {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.core.waitsForOthers(by, false) {
		return NeedFirst
	}
	return t.core.lacks(by)
}

// lacks is what a stream lacks, whether or not its control plane has to be asked first.
func (t *core) lacks(by int) Need {
	stream := &t.streams[by]
	switch {
	case t.demand.Stream(by).Wanted() == 0:
		return NeedNothing
	case t.demand.Stream(by).Unanswered() > 0, t.demand.LacksWildcard(by):
		return NeedContent
	case stream.confidence.Missed(), t.behind():
		return NeedNewer
	}
	return NeedNothing
}

// AsOf is the last time at which the whole content of the table was known to be what the control
// planes serve; zero if that is unknown.
func (t *Table) AsOf() time.Time {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.asOf(time.Now())
}

// asOf is [Table.AsOf].
func (t *core) asOf(now time.Time) (asOf time.Time) {
	asOf = now
	for i := range t.streams {
		if t.store.Sum(i).Live == 0 && len(t.streams) > 1 {
			continue
		}
		if at := t.streamAsOf(i, now); at.Before(asOf) {
			asOf = at
		}
	}
	return asOf
}

// streamAsOf is asOf for the content of one stream.
func (t *core) streamAsOf(by int, now time.Time) time.Time {
	up, lost := t.group.lostAt(by)
	stream := &t.streams[by]
	e := confidence.Evidence{Up: up, Lost: lost, Mirrored: stream.mirroredAsOf}
	if stream.confidence.FromLastGood() {
		e.Written = t.tierHead.Written()
	}
	return stream.confidence.AsOf(now, e)
}

// confirmed reports whether the control planes of all interests have answered on this node's
// own streams.
func (t *core) confirmed() bool {
	wanted := 0
	for i := range t.streams {
		stream := &t.streams[i]
		if t.demand.Stream(i).Wanted() == 0 {
			continue
		}
		wanted++
		if !t.demand.Stream(i).HasAnswered() || !stream.confidence.Confirms() || !t.group.asksOrigin(i) {
			return false
		}
	}
	return wanted > 0
}

// asksOrigin reports whether this node has a stream of its own to the control plane.
func (g *Group) asksOrigin(stream int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.streams[stream].link.AsksControlPlane()
}

// lostAt returns whether there is a stream to the control plane, or to the owner, on which
// something was received, and when the last one was lost.
func (g *Group) lostAt(stream int) (up bool, lost time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := &g.streams[stream].link
	return l.Confirms(), l.Lost()
}
