package cache

import (
	"sync/atomic"
	"time"

	"xdsrelay/relay/cache/demand"
	"xdsrelay/relay/cache/notes"
	"xdsrelay/relay/cache/recent"
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/cache/tierhead"
	"xdsrelay/relay/lockorder"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/trace"
)

// Table holds all resources of one type for one key. Its generation number grows with each change.
type Table struct {
	// Fixed after construction.
	Type  *resource.Type
	group *Group
	seeds seeds
	// shares says that the memory of equal resources of other keys may be used.
	shares bool

	yielding lockorder.Mutex[lockorder.Yielding] // serializes yield; taken before mu

	mu rwMutex
	// Guarded by mu: the content from the control plane.
	store   table.Store
	notes   notes.Notes   // see resource_error.go
	errored notes.Errored // see errored.go
	fed     Stats
	history history
	heard   recent.Versions // see versions.go
	keeps   bool            // previous contents are recorded; see keepsContents
	// spareEdits is memory for the edits of the next update.
	spareEdits []edit
	// rejected holds, by canonical name, the problems of names whose newest copies could not be
	// used. It is nil until there is one.
	rejected map[string]*Problem
	noted    *notedChanges // of an observed key; nil: it is not observed

	updates recent.Updates[*trace.Update] // guarded by mu

	pastBytes atomic.Int64 // of the previous contents; see contentStore

	// Guarded by mu: what clients are sent without a change of a resource; see resource_error.go.
	ttlTimer *time.Timer      // fires at the first deadline
	holding  *time.Timer      // see settleRestoredLocked
	holds    bool             // see takeHoldsLocked
	lost     map[string]*lost // what was removed shortly before; nil: nothing; see children.go
	leftOpen atomic.Bool      // see leaveOpen

	// Guarded by mu: the interest of clients.
	subs      map[subKey]*Subscription
	demand    demand.Demand[*Subscription]
	leaving   bool // see dropMembers
	leftAsked bool // with leaving: the control plane had been asked for the wildcard
	expired   int  // names whose linger time ended since the last tidy
	// retired holds subscriptions without clients. Their names are released in steps, once mu is
	// unlocked.
	retired []*Subscription
	// reserved is how many bytes the edits in steps will still add to the names of each stream; nil
	// until there is such an edit.
	reserved []int

	shrinking bool // guarded by mu; see shrink

	// Guarded by mu: what the control planes were asked, and have answered.
	streams []typeStreamState
	waiting map[*Subscription]struct{} // wait for an answer
	woken   map[*Subscription]struct{} // by the update that is being applied
	nearing *NamesNear                 // to be reported once mu is unlocked

	// Guarded by mu: the comparison with the tier head, and the last known good that may still be
	// restored, usually nil.
	tierHead       headState
	pendingRestore *pendingRestore
}

// Stats counts what happened to a table.
type Stats struct {
	Updates, Changes, Ignored, Expired uint64
}

// everything is the name of the wildcard.
const everything = "*"

func newTable(g *Group, t *resource.Type) *Table {
	n := len(g.cache.cfg.Streams)
	made := &Table{
		Type: t, group: g, seeds: newSeeds(),
		shares: !g.private && !resource.HoldsSecrets(t.URL),
		notes:  notes.New(), errored: notes.NewErrored(),
		subs:    make(map[subKey]*Subscription),
		streams: make([]typeStreamState, n),
		waiting: make(map[*Subscription]struct{}),
		woken:   make(map[*Subscription]struct{}),
	}
	made.keeps = made.keepsContents()
	made.demand = made.newDemand()
	made.store = table.New(t, n, func(name string) bool { return made.demand.Get(name) != nil })
	made.mu.Within(lockPlace(t.URL))
	if g.cache.cfg.HeadWait > 0 && !g.private {
		made.tierHead.Comparison = &tierhead.Comparison{}
	}
	return made
}

// guard makes uses of the store and of the demand without mu panic, under the race detector.
func (t *Table) guard() {
	t.store.Guard(t.mu.MustHold)
	t.demand.Guard(t.mu.MustHold)
	t.notes.Guard(t.mu.MustHold)
	t.errored.Guard(t.mu.MustHold)
}

// nextID numbers the contents of subscriptions across all tables.
func (t *Table) nextID() uint64 { return t.group.cache.lastID.Add(1) }

// setLocked gives name a state at the newest generation, and marks the subscriptions that can see
// the difference. first is the generation of the first change of the same update. It returns the
// previous resource. t.mu must be held.
func (t *Table) setLocked(name string, s table.State, first uint64, woken map[*Subscription]struct{}) (old *resource.Resource) {
	e, added := t.store.Open(name)
	if w := t.demand.Get(name); added && w != nil {
		t.demand.Close(w, name)
	}
	t.markLocked(e, &s, woken)
	old = t.store.Put(e, s, first, time.Now())
	t.noteGlobLocked(e, old, first, woken)
	if s.Res == nil {
		t.store.AddTombstone(e)
		t.reapLocked()
	}
	return old
}

// markLocked updates the subscriptions that see the change of e to s, by name or by the wildcard,
// and adds them to woken. The cost is proportional to the number of such subscriptions.
func (t *Table) markLocked(e *table.Entry, s *table.State, woken map[*Subscription]struct{}) {
	named, wild := e.Differs(s)
	mark := func(s *Subscription) {
		s.gen = t.store.Gen()
		s.updates.Add(t.updates.Next())
		woken[s] = struct{}{}
	}
	if wild {
		for s := range t.demand.Wildcard().Subscribers().All() {
			mark(s)
		}
	}
	old, res := e.Share(), s.Share()
	switch {
	case old.Res == nil && res.Res == nil:
		if w := t.demand.Get(e.Name); w != nil {
			for s := range w.Subscribers().All() {
				mark(s)
			}
		}
		return
	case old.Res != nil && res.Res != nil && len(old.Res.Aliases)+len(res.Res.Aliases) == 0:
		out, in := old.Res.Member(), res.Res.Member()
		subs := t.namedLocked(e, nil) // the same before and after
		for s := range subs.All() {
			if named {
				mark(s)
			}
			s.uncount(old, out)
			s.recount(res, in)
		}
		return
	}
	if old.Res != nil {
		out, subs := old.Res.Member(), t.namedLocked(e, old.Res.Aliases)
		for s := range subs.All() {
			if named {
				mark(s)
			}
			s.uncount(old, out)
		}
	}
	if res.Res != nil {
		in, subs := res.Res.Member(), t.namedLocked(e, res.Res.Aliases)
		for s := range subs.All() {
			if named {
				mark(s)
			}
			s.recount(res, in)
		}
	}
}

// namedLocked returns the subscriptions that ask for e by its name, an alias or its glob, each
// once.
func (t *Table) namedLocked(e *table.Entry, aliases []string) (subs subscribers) {
	add := func(name string) {
		if w := t.demand.Get(name); w != nil {
			subs = subs.With(w.Subscribers())
		}
	}
	add(e.Name)
	for _, a := range aliases {
		add(a)
	}
	if g := e.Glob(); g != nil {
		add(g.Name)
	}
	return subs
}

// reapLocked bounds the tombstones. A client that is further behind gets [ErrTooOld] and must start
// over.
func (t *Table) reapLocked() {
	t.store.Reap(t.group.cache.cfg.Tombstones, t.demand.Len(), t.forgottenLocked)
}

// expireTombstoneLocked forgets a tombstone that some clients may not have been notified of.
func (t *Table) expireTombstoneLocked(e *table.Entry) {
	t.store.Expire(e)
	t.forgottenLocked(e.Name)
}

// forgetEntryLocked forgets e completely and notifies no client.
func (t *Table) forgetEntryLocked(e *table.Entry) {
	t.emptyLocked(e)
	t.store.Forget(e)
	t.forgottenLocked(e.Name)
}

// forgottenLocked forgets what streams know of a name that the store has forgotten: without interest
// it may return without a notice.
func (t *Table) forgottenLocked(name string) {
	for i := range t.streams {
		t.streams[i].names.Forget(name)
	}
}

// emptyLocked makes e a tombstone and notifies no client.
func (t *Table) emptyLocked(e *table.Entry) {
	for _, h := range e.Copies() {
		t.streams[h.Stream].guard.Release(e.Name)
		if g := t.streams[h.Stream].gate; g != nil {
			g.End(e.Name)
		}
	}
	t.store.Empty(e)
}

// bytesLocked estimates the memory of the content and the interest.
func (t *Table) bytesLocked() int64 {
	n := t.store.Bytes() + t.demand.Bytes() + t.notes.Bytes() + t.errored.Bytes() + t.pastBytes.Load()
	for i := range t.streams {
		if g := t.streams[i].gate; g != nil {
			n += g.Bytes()
		}
		n += 8 * int64(cap(t.streams[i].order))
	}
	return n
}

const (
	tableSize = 2 << 10
	groupSize = 1 << 10
)
