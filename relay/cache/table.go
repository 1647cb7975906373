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

// Table holds all resources of one type for one key. Its generation number grows with each change. All
// methods are safe for concurrent use: a Table is the lock around a core.
type Table struct {
	fixed

	yielding lockorder.Mutex[lockorder.Yielding] // serializes yield; taken before mu

	mu   rwMutex
	core core // guarded by mu
}

// fixed is what a table has since its construction. It needs no lock.
type fixed struct {
	Type  *resource.Type
	group *Group
	seeds seeds
	// shares says that the memory of equal resources of other keys may be used.
	shares bool
}

// core is all that changes of a [Table]: the content, the interest of clients, and what the control
// planes were asked and have answered. Its methods take no lock of the table: the lock must be held,
// for writing where they change anything. Only some look at other tables, or at the group, whose locks
// may be taken with it held (see package lockorder).
type core struct {
	fixed
	shell *Table // for the functions of timers, which take the lock

	// The content from the control plane.
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

	updates recent.Updates[*trace.Update]

	pastBytes atomic.Int64 // of the previous contents; see contentStore

	// The notices that clients are sent without a change of a resource; see resource_error.go.
	ttlTimer *time.Timer      // fires at the first deadline
	holding  *time.Timer      // see settleRestored
	holds    bool             // see takeHolds
	lost     map[string]*lost // what was removed shortly before; nil: nothing; see children.go
	leftOpen atomic.Bool      // see leaveOpen; needs no lock

	// The interest of clients.
	subs    map[subKey]*Subscription
	demand  demand.Demand[*Subscription]
	leaving leaving
	expired int // names whose linger time ended since the last tidy
	// retired holds subscriptions without clients. Their names are released in steps, once the lock is
	// released.
	retired []*Subscription
	// reserved is how many bytes the edits in steps will still add to the names of each stream; nil
	// until there is such an edit.
	reserved []int

	shrinking bool // see shrink

	// The state of the upstream streams, for the type.
	streams []typeStreamState
	waiting map[*Subscription]struct{} // wait for an answer
	woken   map[*Subscription]struct{} // by the update that is being applied
	nearing *NamesNear                 // to be reported once the lock is released

	// The comparison with the tier head, and the last known good that may still be restored, usually
	// nil.
	tierHead       headState
	pendingRestore *pendingRestore
}

// leaving is whether the demand for the wildcard has ended, and its content is being dropped; see
// [Table.dropMembers].
type leaving uint8

const (
	notLeaving     leaving = iota
	leavingUnasked         // the control plane had not been asked for the wildcard
	leavingAsked           // it had been asked
)

// Stats counts what happened to a table.
type Stats struct {
	Updates, Changes, Ignored, Expired uint64
}

// everything is the name of the wildcard.
const everything = "*"

func newTable(g *Group, t *resource.Type) *Table {
	made := &Table{fixed: fixed{Type: t, group: g, seeds: newSeeds(), shares: !g.private && !resource.HoldsSecrets(t.URL)}}
	made.core.build(made)
	made.mu.Within(lockPlace(t.URL))
	return made
}

// build makes the empty core of a table.
func (t *core) build(of *Table) {
	g, n := of.group, len(of.group.cache.cfg.Streams)
	t.fixed, t.shell = of.fixed, of
	t.notes, t.errored = notes.New(), notes.NewErrored()
	t.subs = make(map[subKey]*Subscription)
	t.streams = make([]typeStreamState, n)
	t.waiting = make(map[*Subscription]struct{})
	t.woken = make(map[*Subscription]struct{})
	t.keeps = t.keepsContents()
	t.demand = t.newDemand()
	t.store = table.New(t.Type, n, func(name string) bool { return t.demand.Get(name) != nil })
	if g.cache.cfg.HeadWait > 0 && !g.private {
		t.tierHead.Comparison = &tierhead.Comparison{}
	}
}

// guard makes uses of the store and of the demand without mu panic, under the race detector.
func (t *Table) guard() {
	t.core.store.Guard(t.mu.MustHold)
	t.core.demand.Guard(t.mu.MustHold)
	t.core.notes.Guard(t.mu.MustHold)
	t.core.errored.Guard(t.mu.MustHold)
}

// nextID numbers the contents of subscriptions across all tables.
func (t *core) nextID() uint64 { return t.group.cache.lastID.Add(1) }

// set gives name a state at the newest generation, and marks the subscriptions that can see
// the difference. first is the generation of the first change of the same update. It returns the
// previous resource.
func (t *core) set(name string, s table.State, first uint64, woken map[*Subscription]struct{}) (old *resource.Resource) {
	e, added := t.store.Open(name)
	if w := t.demand.Get(name); added && w != nil {
		t.demand.Close(w, name)
	}
	t.mark(e, &s, woken)
	old = t.store.Put(e, s, first, time.Now())
	t.noteGlob(e, old, first, woken)
	if s.Res == nil {
		t.store.AddTombstone(e)
		t.reap()
	}
	return old
}

// mark updates the subscriptions that see the change of e to s, by name or by the wildcard,
// and adds them to woken. The cost is proportional to the number of such subscriptions.
func (t *core) mark(e *table.Entry, s *table.State, woken map[*Subscription]struct{}) {
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
		subs := t.named(e, nil) // the same before and after
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
		out, subs := old.Res.Member(), t.named(e, old.Res.Aliases)
		for s := range subs.All() {
			if named {
				mark(s)
			}
			s.uncount(old, out)
		}
	}
	if res.Res != nil {
		in, subs := res.Res.Member(), t.named(e, res.Res.Aliases)
		for s := range subs.All() {
			if named {
				mark(s)
			}
			s.recount(res, in)
		}
	}
}

// named returns the subscriptions that ask for e by its name, an alias or its glob, each
// once.
func (t *core) named(e *table.Entry, aliases []string) (subs subscribers) {
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

// reap bounds the tombstones. A client that is further behind gets [ErrTooOld] and must start
// over.
func (t *core) reap() {
	t.store.Reap(t.group.cache.cfg.Tombstones, t.demand.Len(), t.forgotten)
}

// expireTombstone forgets a tombstone that some clients may not have been notified of.
func (t *core) expireTombstone(e *table.Entry) {
	t.store.Expire(e)
	t.forgotten(e.Name)
}

// forgetEntry forgets e completely and notifies no client.
func (t *core) forgetEntry(e *table.Entry) {
	t.empty(e)
	t.store.Forget(e)
	t.forgotten(e.Name)
}

// forgotten forgets what streams know of a name that the store has forgotten: without interest
// it may return without a notice.
func (t *core) forgotten(name string) {
	for i := range t.streams {
		t.streams[i].names.Forget(name)
	}
}

// empty makes e a tombstone and notifies no client.
func (t *core) empty(e *table.Entry) {
	for _, h := range e.Copies() {
		t.streams[h.Stream].guard.Release(e.Name)
		if g := t.streams[h.Stream].gate; g != nil {
			g.End(e.Name)
		}
	}
	t.store.Empty(e)
}

// bytes estimates the memory of the content and the interest.
func (t *core) bytes() int64 {
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
