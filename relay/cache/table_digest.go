package cache

import (
	"slices"

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
	// Wildcard says that there is interest in the wildcard, so that two nodes that are equally far
	// have the same content.
	Wildcard bool
	// Behind says that other nodes have newer content; see [Group.ObserveHead].
	Behind bool
	// Ahead says that the content is newer than the tier head: it replaced what that describes.
	Ahead bool
	// Complete says that the control plane has answered for the wildcard, and clients ask for that.
	Complete bool
	// Confirmed says that a control plane that this node asks itself has answered for all
	// interests, on the present streams.
	Confirmed bool
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
	return t.tableDigestLocked()
}

func (t *Table) tableDigestLocked() TableDigest {
	return TableDigest{
		Type: t.Type, Generation: t.store.Gen(), Digest: t.store.All(), Errored: t.errored.sum, Version: t.wildVersionLocked(),
		Resources: t.store.Live(), Wildcard: t.wild.demanded(), Complete: t.wildKnownLocked(), Behind: t.tierHead != nil && t.tierHead.behind, Ahead: t.tierHead.ahead(), Confirmed: t.confirmedLocked(), Updates: t.fed.Updates, Traced: t.tracedLocked(),
	}
}

// Changes returns a channel that is signaled when a table of the group may have new content, or a
// control plane has answered, and a function that ends this. One signal covers everything since the
// last one was received, so a listener examines the tables again after each, and once when it
// begins to listen. Nothing waits for a listener.
func (g *Group) Changes() (news <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listenLocked(func(all []chan<- struct{}) []chan<- struct{} { return append(all, c) })
	return c, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.listenLocked(func(all []chan<- struct{}) []chan<- struct{} {
			return slices.DeleteFunc(all, func(o chan<- struct{}) bool { return o == c })
		})
	}
}

// listenLocked replaces the listeners. g.mu must be held.
func (g *Group) listenLocked(edit func([]chan<- struct{}) []chan<- struct{}) {
	var all []chan<- struct{}
	if now := g.listeners.Load(); now != nil {
		all = slices.Clone(*now)
	}
	if all = edit(all); len(all) == 0 {
		g.listeners.Store(nil)
		return
	}
	g.listeners.Store(&all)
}

// changed signals the listeners; see [Group.Changes].
func (g *Group) changed() {
	all := g.listeners.Load()
	if all == nil {
		return
	}
	for _, c := range *all {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
