package cache

import (
	"slices"
	"time"
)

// The removal guard compares the first complete answer of a control plane with what the node has,
// and with what other nodes have that it could ask (K16). A node that started a moment ago, and saw
// no other node, has nothing to compare it with: where the control plane has lost everything by
// mistake, other nodes would take over that everything is gone, as the newest state. So such a set
// counts as unjudged for as long as a hold of the guard would last, and removes nothing from nodes
// that would hold the removal back.

// noteUnjudged records that the answer which arrived at now is the first complete one for the
// wildcard of a stream. live is how many resources the stream had before.
func (t *core) noteUnjudged(by, live int, now time.Time) {
	if live == 0 && t.Type.FullState && t.group.cache.guards() && t.demand.LacksWildcard(by) {
		t.streams[by].unjudged = now
	}
}

// unjudged reports whether the removal guard could compare the content of any stream with
// nothing, and a hold that began then still lasts.
func (t *core) unjudged() bool {
	hold := t.group.cache.cfg.RemovalHold
	return slices.ContainsFunc(t.streams, func(l typeStreamState) bool {
		return !l.unjudged.IsZero() && (hold <= 0 || time.Since(l.unjudged) < hold)
	})
}

// holdUnjudged makes snapshots, by type URL, keep what the removal guard would hold back if the
// newest one replaced the others: of that type, and of all types whose names may be referred to.
func (g *Group) holdUnjudged(byType map[string][]Snapshot) {
	if !g.cache.guards() {
		return
	}
	held := false
	for url, all := range byType {
		ranked := rankSnapshots(all, g.headOf(url))
		for i := range unjudgedLoss(ranked, g.cache.cfg.MaxRemovalPercent) {
			ranked[1+i].HeldBack, held = true, true
		}
		byType[url] = ranked
	}
	for _, all := range byType {
		for i := range all {
			all[i].HeldBack = all[i].HeldBack || held && !all[i].Type.FullState
		}
	}
}

// unjudgedLoss returns how many snapshots after the first one must not be replaced by it: it is
// unjudged, and lacks so much of one of them that the removal guard would hold that back. A judged
// set replaces all that are older.
func unjudgedLoss(ranked []Snapshot, percent int) (kept int) {
	first := &ranked[0]
	if !first.Unjudged || !first.Wildcard {
		return 0
	}
	there := make(map[string]struct{}, len(first.Resources))
	for _, one := range first.Resources {
		there[one.Resource.Key] = struct{}{}
	}
	for i, k := range ranked[1:] {
		gone := 0
		for _, one := range k.Resources {
			if _, is := there[one.Resource.Key]; !is {
				gone++
			}
		}
		if gone*100 > percent*len(k.Resources) || gone > 0 && len(there) == 0 {
			kept = i + 1
		}
		if k.Wildcard && !k.Unjudged {
			break
		}
	}
	return kept
}
