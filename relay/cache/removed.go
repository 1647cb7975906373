package cache

import (
	"time"

	"xdsrelay/relay/cache/absence"
	"xdsrelay/relay/cache/removals"
)

// Nodes that do not see each other each ask the control plane themselves, and each holds a mass
// removal back from when it receives it (K16). A node that was cut off begins later: when the
// others meet it again, it still holds back what they have removed, and nodes that follow it would
// give that back to their clients. That the others hold nothing back proves nothing: a node that
// has just started does not, either. That they had a resource, and that it was removed while they
// were connected, does. So they report it, and the node that still holds it back removes it, too.

// remembersRemoved reports whether the table remembers what was removed.
func (t *core) remembersRemoved() bool { return t.Type.FullState && t.group.cache.guards() }

// noteRemoved records that a resource of a stream was removed: the removal guard of this
// node, or of the owner, does not hold that back, or not any longer. The record ends when the
// resource is back, and with its tombstone.
func (t *core) noteRemoved(by int, name string) {
	if t.remembersRemoved() {
		t.streams[by].names.Remove(name, time.Now())
	}
}

// HeldBack returns the canonical names, by type URL, whose removals the guard holds back on the
// stream with a name (see [OriginStream.String]). A guard that keeps names only because of parents
// is omitted: those are removed with these. An idle group has such removals, too, and serves the
// resources to its next clients.
func (g *Group) HeldBack(stream string) map[string][]string {
	by := g.cache.StreamNamed(stream)
	if by < 0 {
		return nil
	}
	all := make(map[string][]string)
	for _, t := range g.Tables() {
		t.mu.RLock()
		if held := &t.core.streams[by].guard; held.Reason() == removals.Mass {
			for name := range held.Names() {
				all[t.Type.URL] = append(all[t.Type.URL], name)
			}
		}
		t.mu.RUnlock()
	}
	return all
}

// Removed returns which of these names, as HeldBack returns them, were removed here while this node
// was connected to the control plane or to the owner, and has been since: it would know if they
// were back.
func (f *Feed) Removed(names map[string][]string) map[string][]string {
	all := make(map[string][]string)
	f.eachRemoved(func(t *Table, removed *absence.Names, since time.Time) {
		for _, name := range names[t.Type.URL] {
			if removed.RemovedSince(name, since) {
				all[t.Type.URL] = append(all[t.Type.URL], name)
			}
		}
	})
	return all
}

// HasRemoved reports whether Removed may return anything.
func (f *Feed) HasRemoved() (has bool) {
	f.eachRemoved(func(_ *Table, removed *absence.Names, since time.Time) { has = has || removed.HasRemovedSince(since) })
	return has
}

// eachRemoved calls look for each table, with its mu held, with what was removed, and since when that
// counts.
func (f *Feed) eachRemoved(look func(t *Table, removed *absence.Names, since time.Time)) {
	resumed, ok := f.group.knowsSince(f.stream)
	if !ok {
		return
	}
	for _, t := range f.group.Tables() {
		t.mu.RLock()
		if stream := &t.core.streams[f.stream]; !stream.confidence.Missed() {
			look(t, &stream.names, resumed) // the first answer may be in the same moment
		}
		t.mu.RUnlock()
	}
}

// knowsSince returns since when a stream has been connected to the control plane, or to the owner,
// apart from brief interruptions; ok is false if it is not connected.
func (g *Group) knowsSince(stream int) (since time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.streams[stream].link.KnowsSince(time.Now())
}

// RemoveHeld applies the removals of these names, as Removed of another node returns them, as far
// as they are held back on the stream with a name. It returns how many.
func (g *Group) RemoveHeld(stream string, names map[string][]string) (removed int) {
	by := g.cache.StreamNamed(stream)
	if by < 0 {
		return 0
	}
	return g.removeHeld(time.Now(), func(t *Table, woken map[*Subscription]struct{}) int {
		return t.core.removeNames(by, names[t.Type.URL], woken)
	})
}

// removeNames is removeHeld for some names.
func (t *core) removeNames(by int, names []string, woken map[*Subscription]struct{}) (removed int) {
	some := t.streams[by].guard.TakeSome(names)
	if len(some) == 0 {
		return 0
	}
	return t.remove(by, some, &children{table: t}, woken)
}
