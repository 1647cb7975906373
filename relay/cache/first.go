package cache

import (
	"time"

	"xdsrelay/relay/cache/link"
	"xdsrelay/relay/resource"
)

// The removal guard (K16) can hold back only removals of what a node has, and a rollout only changes of
// it. A node that begins to ask the control plane for a type of which it has nothing, or something old,
// may get the answer of a control plane that is empty by mistake, or content that no rollout has released,
// and other nodes would take that over from it. So with a removal guard, or a governor, such a node asks
// the other nodes before the control plane, and takes over what they have. See [NeedFirst].

// compares reports whether what the control plane sends first is compared with what other nodes have. It
// may be called with a table's mu held.
func (g *Group) compares() bool {
	if g.cache.guards() {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.governor != nil
}

// Asked records that all reachable other nodes were asked for what they have of the key, and the
// names of those that have answered. Now the control plane may be asked, too.
func (f *Feed) Asked(nodes ...string) {
	g := f.group
	compares := g.compares()
	g.mu.Lock()
	l := &g.streams[f.stream]
	if others := &l.link.Others; compares {
		others.Asked(time.Now(), nodes)
	} else {
		others.AskedAny(time.Now())
	}
	news := l.listener
	g.mu.Unlock()
	if news != nil {
		signal(news)
	}
}

// asksFirst reports whether other nodes have to be asked before the control plane of a stream. It
// may be called with a table's mu held.
func (g *Group) asksFirst(stream int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.streams[stream].link.AsksFirst(time.Now())
}

// begins reports whether a stream's control plane is about to be asked for a type for the first
// time, or while the stream has nothing of it but what was restored, or for everything once other
// nodes were asked. Until it answers, what other nodes have counts: the removal guard can hold back
// removals of that (K16).
func (t *core) begins(stream int) bool {
	if stream == Nobody {
		return false
	}
	nothing := !t.demand.Stream(stream).HasAsked() || t.store.Sum(stream).Live == 0 || t.streams[stream].confidence.FromLastGood()
	return t.streams[stream].postponed != atOnce || nothing && t.group.compares()
}

// waitsForOthers reports whether a stream's control plane must not be asked for the table
// yet. whole says that nothing was asked for on the present stream.
func (t *core) waitsForOthers(by int, whole bool) bool {
	if !t.group.compares() {
		return false
	}
	if whole || t.begins(by) {
		return t.lacks(by) != NeedNothing && t.group.asksFirst(by)
	}
	return t.demand.Stream(by).WildcardChanged() && t.demand.LacksWildcard(by) && t.group.asksFirst(by)
}

// postponed is what a stream's control plane is not asked for before other nodes are asked.
type postponed uint8

const (
	// atOnce: nothing but what begins; see Table.begins.
	atOnce postponed = iota
	// forSecond: everything, on a stream that is opened while others are in use. These are not sent
	// changes, either.
	forSecond
	// forOnly: everything, on the only stream.
	forOnly
)

// heldElsewhere is what another node reported about the removals that it holds back.
type heldElsewhere struct {
	until time.Time // when it applies them; zero for never
	heard time.Time
}

// hearHolds records until when other nodes hold removals back.
func (g *Group) hearHolds(others []Snapshot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range others {
		k := &others[i]
		if !k.HeldBack || k.HoldUntil.IsZero() {
			continue
		}
		if g.holds == nil {
			g.holds = make(map[string]heldElsewhere)
		}
		if h, known := g.holds[k.Type.URL]; !known || k.HoldUntil.Before(h.until) || time.Since(h.heard) > link.AskedFor {
			g.holds[k.Type.URL] = heldElsewhere{until: k.HoldUntil, heard: time.Now()}
		}
	}
}

// holdUntil is when a hold ends that begins now: together with that of the node that held the same
// removals back before, if one has just reported that. It may be called with a table's mu held.
func (g *Group) holdUntil(typ *resource.Type, now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	until := now.Add(g.cache.cfg.RemovalHold)
	if h, known := g.holds[typ.URL]; known && now.Sub(h.heard) <= 2*link.AskedFor && h.until.Before(until) {
		until = h.until
	}
	return until
}
