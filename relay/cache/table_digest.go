package cache

import (
	"slices"

	"xdsrelay/relay/cache/tierhead"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/trace"
)

// TableDigest summarizes the content of a table at one time.
type TableDigest struct {
	Type *resource.Type
	// Generation is that of the newest change. Each node counts for itself.
	Generation uint64
	// Digest identifies the whole content of the table: it is equal on every node for equal content
	// (K11), even without a wildcard.
	Digest resource.Digest
	// Errored identifies the names for which clients may remember an error; see
	// [SnapshotResource.Errored]. Other nodes may know of other names.
	Errored resource.Digest
	// Version is the one that SotW clients of the wildcard get (D7).
	Version string
	// Resources is the number of resources.
	Resources int
	// Wildcard is what is known of the wildcard, if clients ask for it: then two nodes that are equally
	// far have the same content.
	Wildcard WildcardState
	// Standing is how the content compares with the tier head; see [Group.ObserveHead].
	Standing tierhead.Standing
	// Confirmed says that a control plane that this node asks itself has answered for all
	// interests, on the present streams.
	Confirmed bool
	// Known says that the content is what a control plane, another node or a record has given for
	// something that clients ask for. Where clients have left, or nothing has been given yet for what
	// new ones ask for, content that is missing proves nothing.
	Known bool
	// Updates is the number of answers of control planes so far.
	Updates uint64
	// Traced is the update that made the newest change; nil if it is not traced, or no longer
	// remembered.
	Traced *trace.Update
}

// Digest summarizes the content of the table, at a cost that does not depend on its size.
func (t *Table) Digest() TableDigest {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.tableDigest()
}

func (t *core) tableDigest() TableDigest {
	return TableDigest{
		Type: t.Type, Generation: t.store.Gen(), Digest: t.store.All(), Errored: t.errored.Digest(), Version: t.wildVersion(),
		Resources: t.store.Live(), Wildcard: t.wildcardState(t.demand.Wildcard().Demanded()), Standing: t.tierHead.Standing(),
		Confirmed: t.confirmed(), Known: t.given(), Updates: t.fed.Updates, Traced: t.traced(),
	}
}

// given is [TableDigest.Known].
func (t *core) given() bool {
	wanted, answered := 0, false
	for i := range t.streams {
		s := t.demand.Stream(i)
		wanted, answered = wanted+s.Wanted(), answered || s.Wanted() > s.Unanswered()
	}
	switch {
	case wanted == 0 || t.leaving != notLeaving: // what is still there is about to be dropped
		return false
	case t.store.Live() > 0:
		return true
	case t.demand.Wildcard().Demanded():
		return t.demand.WildcardAnswered()
	}
	return answered
}

// OnChange calls changed when a table of the group may have new content, or a control plane has
// answered, until stop is called. The call is made by the goroutine that made the change, which may
// be on its way to clients: changed must not block. No lock of this package is held. One call may
// be for several changes, and calls may overlap. When stop returns, calls that began before may
// still run.
func (g *Group) OnChange(changed func()) (stop func()) {
	l := &listener{changed}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listenLocked(func(all []*listener) []*listener { return append(all, l) })
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.listenLocked(func(all []*listener) []*listener {
			return slices.DeleteFunc(all, func(o *listener) bool { return o == l })
		})
	}
}

// listener is what [Group.OnChange] was called with.
type listener struct{ changed func() }

// listenLocked replaces the listeners. g.mu must be held.
func (g *Group) listenLocked(edit func([]*listener) []*listener) {
	var all []*listener
	if now := g.listeners.Load(); now != nil {
		all = slices.Clone(*now)
	}
	if all = edit(all); len(all) == 0 {
		g.listeners.Store(nil)
		return
	}
	g.listeners.Store(&all)
}

// changed calls the listeners; see [Group.OnChange]. It also bounds the previous contents. No lock may be held but one that is locked
// before all of this package.
func (g *Group) changed() {
	g.cache.past.trim(g.cache.past.limit)
	if all := g.listeners.Load(); all != nil {
		for _, l := range *all {
			l.changed()
		}
	}
}
