package fanout

import (
	"time"

	"xdsrelay/relay/cache"
)

// Holding says which version of a resource a client has, as far as its position shows.
type Holding string

// The holdings.
const (
	HasCurrent Holding = "current" // it has acknowledged the current version
	HasOlder   Holding = "older"   // an older version, or one that was removed
	HasNone    Holding = "none"
	HasUnknown Holding = "unknown"
)

// FoundResource is how a client stands with a resource that it subscribes to.
type FoundResource struct {
	ResourceStatus

	Table *cache.Table
	// Canonical is the canonical name.
	Canonical string
	// Interest is how its subscription includes the resource, Holding what it has of it.
	Interest cache.Interest
	Holding  Holding
	// Removed says that there is no resource, and that the client may still have one.
	Removed bool
	// Acked is the generation of the table that the client has acknowledged.
	Acked uint64
	// Since is the time since which the client is in its state with the type.
	Since time.Time
	// Waiting is the reason why it was not sent the newest content of the type, or has not acknowledged
	// it. After is the type URL that has to be sent first, if that is the reason.
	Waiting, After string
}

// Find yields the client's status with some resources. want returns the canonical names of a table that are
// wanted; nothing waits for it. The cost is proportional to the number of these names.
func (c client) Find(want func(*cache.Table) []string, yield func(*FoundResource) bool) {
	type found struct {
		names []string
		place Place
		FoundResource
	}
	var tables [16]*cache.Table
	c.mu.Lock()
	of := tables[:0]
	for _, ts := range c.types {
		of = append(of, ts.table)
	}
	c.mu.Unlock()
	var all []found
	for _, t := range of {
		if names := want(t); len(names) > 0 {
			all = append(all, found{names: names, FoundResource: FoundResource{Table: t}})
		}
	}
	if len(all) == 0 {
		return
	}
	c.mu.Lock()
	for i := range all {
		f := &all[i]
		for _, ts := range c.types {
			if ts.table != f.Table {
				continue
			}
			sub, h := ts.table.Subscription(&ts.watcher), ts.table.State(&ts.watcher)
			if sub == nil {
				continue
			}
			f.place = c.placeLocked(ts, sub)
			if states[ts.standing(h.Gen)] == Unknown {
				f.State = Unknown
			}
			waiting, after := c.waitingLocked(ts, &h)
			f.Since, f.Waiting, f.After = c.srv.timeOf(ts.since), waiting.String(), after
		}
	}
	c.mu.Unlock()
	for i := range all {
		if all[i].place.Sub != nil && !all[i].place.Find(all[i].names, all[i].FoundResource, yield) {
			return
		}
	}
}

// Find yields the status of names that the subscription includes, with the other fields of f. If the State of f
// is Unknown, so is what the client has. It reports whether yield wants more.
func (p *Place) Find(names []string, f FoundResource, yield func(*FoundResource) bool) bool {
	unknown := f.State == Unknown
	for i, at := range p.Sub.PositionsOf(p.view, names, p.Acked) {
		if at.Interest == "" || at.Resource == nil && at.Interest != cache.InName && at.Gen <= p.Acked {
			continue
		}
		one := f
		one.Canonical, one.Interest, one.Acked, one.Holding = names[i], at.Interest, p.Acked, HasNone
		sight := cache.Sight{Name: at.Name, Gen: at.Gen, Resource: at.Resource, Changed: at.Changed}
		one.ResourceStatus = p.of(sight)
		one.Removed = at.Resource == nil && (at.Was || at.Maybe)
		switch {
		case unknown:
			one.State, one.Holding = Unknown, HasUnknown
		case one.State == Synced:
			one.Holding = HasCurrent
		case at.Gen > p.Acked && at.Was:
			one.Holding = HasOlder
		case at.Maybe || at.Resource != nil && at.Gen <= p.Acked:
			one.Holding = HasUnknown // it was sent again, or the client may hold it from before
		}
		if one.Removed && !unknown {
			one.State = p.stateOfRemoval(at.Gen, names[i])
		}
		if one.State == Nacked {
			one.Nack = p.Nack
		}
		if !yield(&one) {
			return false
		}
	}
	return true
}

// stateOfRemoval is the state of a removal that the client has not acknowledged.
func (p *Place) stateOfRemoval(gen uint64, name string) State {
	switch {
	case gen > p.Sent || among(p.unsent, name):
		return NotSent
	case p.Rejected:
		return Nacked
	}
	return Stale
}
