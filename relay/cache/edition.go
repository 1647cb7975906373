package cache

import (
	"slices"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/trace"
)

// Edition is what a table holds at one time, in short.
type Edition struct {
	Type *resource.Type
	// Generation is that of the newest change. Each node counts for itself.
	Generation uint64
	// Digest stands for all that the table holds: it is equal on every node for
	// equal content (K11), also where nobody asks for everything.
	Digest resource.Digest
	// Errored stands for the names of which clients may remember an error; see
	// [KeptResource.Errored]. Other nodes may know of other names.
	Errored resource.Digest
	// Version is what SotW clients of the wildcard are told (D7).
	Version string
	// Resources is how many there are.
	Resources int
	// Wildcard says that somebody wants everything, so that two nodes that are
	// equally far hold the same.
	Wildcard bool
	// Behind says that other nodes have newer content; see [Group.Agree].
	Behind bool
	// Complete says that the origin has answered for everything that somebody wants by
	// the wildcard.
	Complete bool
	// Confirmed says that an origin that this node asks itself has answered for all that
	// is wanted, on the streams that there are now.
	Confirmed bool
	// Updates is how many answers of origins there have been.
	Updates uint64
	// Traced is the update that made the newest change; nil where it is not traced, or
	// has been forgotten.
	Traced *trace.Update
}

// Edition tells what the table holds, at the same cost whatever its size.
func (t *Table) Edition() Edition {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.editionLocked()
}

func (t *Table) editionLocked() Edition {
	return Edition{
		Type: t.Type, Generation: t.gen, Digest: t.allLocked(), Errored: t.errored.sum, Version: t.wildVersionLocked(),
		Resources: t.live, Wildcard: t.wild.demanded(), Complete: t.wildKnownLocked(), Behind: t.agreed != nil && t.agreed.behind, Confirmed: t.confirmedLocked(), Updates: t.fed.Updates, Traced: t.tracedLocked(),
	}
}

// allLocked is the digest of all that the table holds: of the wildcard set, and
// of what came through each leg where there are several.
func (t *Table) allLocked() resource.Digest {
	all := t.digest
	if len(t.legs) > 1 {
		for i := range t.legs {
			all = all.Add(t.legs[i].digest)
		}
	}
	return all
}

// Changes returns a channel that is signalled when a table of the group may hold
// something new, or an origin has answered, and what ends that. One signal stands
// for all that happened since the last was taken, so a listener looks at the
// tables anew: at once when it has begun to listen, too. Nobody waits for a
// listener.
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

// listenLocked replaces those who listen to changes.
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

// changed signals those who listen to changes; see [Group.Changes].
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
