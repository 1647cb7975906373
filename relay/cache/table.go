package cache

import (
	"sync/atomic"
	"time"

	"xdsrelay/relay/lockorder"
	"xdsrelay/relay/resource"
)

// Table holds all resources of one type for one key. Its generation number grows with each change.
type Table struct {
	// Fixed after construction.
	Type  *resource.Type
	group *Group
	seeds seeds

	yielding lockorder.Mutex[lockorder.Yielding] // serializes yield; taken before mu

	mu rwMutex
	// Guarded by mu: the content from the control plane.
	gen        uint64              // of the newest change; 0: never changed
	entries    map[string]*entry   // only addEntryLocked and forgetEntryLocked add and remove
	aliases    map[string][]*entry // see eachOfLocked
	globs      map[string]*glob    // of all structured names, and the globs with interest
	changes    list[entry]         // every entry, by generation
	tombstones list[entry]         // tombstones only, roughly by age
	floor      uint64              // tombstones up to here may be gone
	// aliasFloor is the same for tombstones that clients may know by an alias.
	aliasFloor uint64
	live       int // resources, including those that no client sees
	bytes      int64
	members    int             // resources in the wildcard set
	digest     resource.Digest // of the wildcard set
	fed        Stats
	history    history
	// rejected holds, by canonical name, the problems of names whose newest copies could not be
	// used. It is nil until there is one.
	rejected map[string]*Problem
	// uncacheable holds the names by which clients may ask for resources that must not be cached
	// (K17). It is nil until there is one.
	uncacheable map[string]string

	updates recentUpdates // guarded by mu

	// Guarded by mu: what clients are sent without a change of a resource; see resource_error.go.
	notes          uint64                      // number of the newest note
	heartbeats     list[entry]                 // entries that clients know with a TTL, by their newest note
	deadlines      deadlines                   // of all copies that have one
	ttlTimer       *time.Timer                 // fires at the first deadline
	holding        *time.Timer                 // see settleRestoredLocked
	resourceErrors map[string][]*resourceError // by name
	errorsByNote   list[resourceError]         // all of these, by their notes
	localErrors    int                         // resource errors of the relay's own
	holds          bool                        // see takeHoldsLocked
	lost           map[string]*lost            // what was removed shortly before; nil: nothing; see children.go
	leftOpen       atomic.Bool                 // see leaveOpen
	errored        errored
	extra          extra

	// Guarded by mu: the interest of clients.
	subs      map[subKey]*Subscription
	interests map[string]*interest // only putInterestLocked and endInterestLocked add and remove
	wild      interest
	leaving   bool // see dropMembers
	leftAsked bool // with leaving: the control plane had been asked for the wildcard
	lingering int  // names without subscribers that stay subscribed for the linger time
	expired   int  // names whose linger time ended since the last tidy
	// retired holds subscriptions without clients. Their names are released in steps, once mu is
	// unlocked.
	retired []*Subscription
	// reserved is how many bytes the edits in steps will still add to the names of each stream; nil
	// until there is such an edit.
	reserved []int
	shed     int // names with interest that no stream asks for

	// Guarded by mu: see shrink.
	shrinking     bool
	moved         uint64               // how often a copy has replaced a map
	nextInterests map[string]*interest // nil unless a copy of the map is being made
	nextEntries   map[string]*entry    // the same for entries

	// Guarded by mu: what the control planes were asked, and have answered.
	seq     uint64 // numbers the interests
	streams []typeStreamState
	waiting map[*Subscription]struct{} // wait for an answer
	woken   map[*Subscription]struct{} // by the update that is being applied
	nearing *NamesNear                 // to be reported once mu is unlocked

	// Guarded by mu: the tier head, nil without a tier, and the last known good that may still be
	// restored, usually nil.
	tierHead       *headState
	pendingRestore *pendingRestore
}

// Stats counts what happened to a table.
type Stats struct {
	Updates, Changes, Ignored, Expired uint64
}

// everything is the name of the wildcard.
const everything = "*"

func newTable(g *Group, t *resource.Type) *Table {
	table := &Table{
		Type: t, group: g, seeds: newSeeds(),
		entries:    make(map[string]*entry),
		aliases:    make(map[string][]*entry),
		changes:    list[entry]{at: changesLink},
		tombstones: list[entry]{at: tombstoneLink},
		heartbeats: list[entry]{at: heartbeatLink},

		resourceErrors: make(map[string][]*resourceError),
		errored:        errored{names: make(map[string]*erroredName)},
		errorsByNote:   list[resourceError]{at: errorLink},

		subs:      make(map[subKey]*Subscription),
		interests: make(map[string]*interest),
		wild:      interest{stream: g.cache.cfg.Route(t, everything)},
		streams:   newTypeStreamStates(len(g.cache.cfg.Streams)),
		waiting:   make(map[*Subscription]struct{}),
		woken:     make(map[*Subscription]struct{}),
	}
	table.mu.Within(lockPlace(t.URL))
	if g.cache.cfg.HeadWait > 0 && !g.private {
		table.tierHead = &headState{}
	}
	return table
}

// nextID numbers the contents of subscriptions across all tables.
func (t *Table) nextID() uint64 { return t.group.cache.lastID.Add(1) }

// state is what is known of a name: a resource, or that the name is absent when there is none.
type state struct {
	resourceCopy
	second *resourceCopy
	member bool
	// noticed says that subscribers of the wildcard are notified in any case. denied says that the
	// control plane of the hold's stream refuses to show the resource.
	noticed, denied bool
}

func (s *state) share() share { return share{s.res, s.member} }

// setLocked gives name a state at the newest generation, and marks the subscriptions that can see
// the difference. first is the generation of the first change of the same update. It returns the
// previous resource. t.mu must be held.
func (t *Table) setLocked(name string, s state, first uint64, woken map[*Subscription]struct{}) (old *resource.Resource) {
	e := t.entries[name]
	if e == nil {
		if w := t.interests[name]; w != nil && w.stream != Nobody {
			delete(t.streams[w.stream].unanswered, name)
		}
		e = &entry{name: name}
		t.addEntryLocked(e)
		t.indexGlobLocked(e)
		t.bytes += entrySize(name)
	} else {
		t.changes.remove(e)
		if e.res == nil {
			t.tombstones.remove(e)
		}
	}
	was, res := e.member, s.res
	old = e.res
	named, wild := old != res || res == nil, was || s.member || s.noticed
	t.markLocked(e, &s, named, wild, woken)
	if old == nil && res != nil {
		e.born = t.gen
		if e.lived == 0 {
			e.lived = t.gen
		}
	}
	if named {
		t.replaceLocked(e, res)
		e.named = t.gen
	}
	t.joinWildcardLocked(e, old, was, s)
	if wild {
		e.wild = t.gen
	}
	t.setCopiesLocked(e, s)
	e.gap = gap{}
	e.gen, e.first, e.changed = t.gen, first, time.Now().UnixMilli()
	t.changes.push(e)
	t.countLocked(e, old, first, woken)
	if res == nil {
		t.tombstones.push(e)
		t.reapLocked()
		return old
	}
	if e.urn != nil {
		e.urn.spelled = res.Name
	}
	return old
}

// replaceLocked counts res instead of e.res, and updates the aliases.
func (t *Table) replaceLocked(e *entry, res *resource.Resource) {
	if e.res != nil {
		t.live--
		t.bytes -= int64(e.res.Size())
	}
	if res != nil {
		t.live++
		t.bytes += int64(res.Size())
	}
	t.renameLocked(e, e.res, res)
	t.keepLastLocked(e, e.res, res)
}

// joinWildcardLocked updates the wildcard set from old to s.
func (t *Table) joinWildcardLocked(e *entry, old *resource.Resource, was bool, s state) {
	if was {
		t.members--
		t.digest = t.digest.Sub(old.Member())
	}
	if e.member = s.member; s.member {
		t.members++
		t.digest = t.digest.Add(s.res.Member())
	}
}

// markLocked updates the subscriptions that see the change of e to s, by name or by the wildcard,
// and adds them to woken. The cost is proportional to the number of such subscriptions.
func (t *Table) markLocked(e *entry, s *state, named, wild bool, woken map[*Subscription]struct{}) {
	mark := func(s *Subscription) {
		s.gen = t.gen
		s.updates.add(t.updates.n + 1)
		woken[s] = struct{}{}
	}
	if wild {
		for s := range t.wild.subs.all() {
			mark(s)
		}
	}
	old, res := e.share(), s.share()
	switch {
	case old.res == nil && res.res == nil:
		if w := t.interests[e.name]; w != nil {
			for s := range w.subs.all() {
				mark(s)
			}
		}
		return
	case old.res != nil && res.res != nil && len(old.res.Aliases)+len(res.res.Aliases) == 0:
		out, in := old.res.Member(), res.res.Member()
		subs := t.namedLocked(e, nil) // the same before and after
		for s := range subs.all() {
			if named {
				mark(s)
			}
			s.uncount(old, out)
			s.recount(res, in)
		}
		return
	}
	if old.res != nil {
		out, subs := old.res.Member(), t.namedLocked(e, old.res.Aliases)
		for s := range subs.all() {
			if named {
				mark(s)
			}
			s.uncount(old, out)
		}
	}
	if res.res != nil {
		in, subs := res.res.Member(), t.namedLocked(e, res.res.Aliases)
		for s := range subs.all() {
			if named {
				mark(s)
			}
			s.recount(res, in)
		}
	}
}

// namedLocked returns the subscriptions that ask for e by its name, an alias or its glob, each
// once.
func (t *Table) namedLocked(e *entry, aliases []string) (subs subscribers) {
	add := func(name string) {
		if w := t.interests[name]; w != nil {
			subs = subs.with(&w.subs)
		}
	}
	add(e.name)
	for _, a := range aliases {
		add(a)
	}
	if g := e.globOf(); g != nil {
		add(g.name)
	}
	return subs
}

// keepLastLocked keeps the resource of a new tombstone where a SotW client may need to see it a
// little longer.
func (t *Table) keepLastLocked(e *entry, old, res *resource.Resource) {
	if e.last != nil {
		t.bytes -= int64(e.last.Size())
		e.last = nil
	}
	if res == nil && old != nil && t.Type.FullState {
		t.bytes += int64(old.Size())
		e.last = old
	}
}

// reapLocked bounds the tombstones. Tombstones of names with interest stay as long as the interest
// (D5): the control plane reports an absent name only once. Tombstones of resources that the
// control plane refuses to show stay as well: clients may hold them, and must be notified of the
// removal (K8). Of the rest, as many stay as the table has resources, or the configured minimum. A
// client that is further behind gets [ErrTooOld] and must start over.
func (t *Table) reapLocked() {
	limit := max(t.group.cache.cfg.Tombstones, t.live) + len(t.interests) + len(t.uncacheable)
	for i := range t.streams {
		limit += t.streams[i].denied
	}
	for range reapAtOnce {
		e := t.tombstones.oldest
		switch {
		case t.tombstones.len <= limit:
			return
		case t.interests[e.name] != nil || e.denied || t.uncacheable[e.name] == e.name:
			t.tombstones.remove(e)
			t.tombstones.push(e)
			continue
		}
		t.expireTombstoneLocked(e)
	}
}

// reapAtOnce bounds the tombstones that each new one makes reapLocked examine. It is more than one,
// so that their number decreases again when it is too high.
const reapAtOnce = 4

// expireTombstoneLocked forgets a tombstone that some clients may not have been notified of, and
// raises the floors.
func (t *Table) expireTombstoneLocked(e *entry) {
	if len(e.former) > 0 {
		t.aliasFloor = max(t.aliasFloor, e.gen)
	}
	if g := e.globOf(); g != nil {
		g.floor = max(g.floor, e.named)
	}
	t.floor = max(t.floor, e.wild)
	t.forgetEntryLocked(e)
}

// forgetEntryLocked forgets e completely and notifies no client.
func (t *Table) forgetEntryLocked(e *entry) {
	t.clearUncacheableLocked(e.name)
	t.emptyLocked(e)
	t.setCopiesLocked(e, state{})
	t.tombstones.remove(e)
	t.unindexLocked(e, e.former)
	t.unindexGlobLocked(e)
	t.keepLastLocked(e, nil, nil)
	t.changes.remove(e)
	t.bytes -= entrySize(e.name)
	delete(t.entries, e.name)
	delete(t.nextEntries, e.name)
	for i := range t.streams { // a name without interest may return without a notice
		delete(t.streams[i].removed, e.name)
		delete(t.streams[i].assumed, e.name)
	}
}

func (t *Table) addEntryLocked(e *entry) {
	t.entries[e.name] = e
	if t.nextEntries != nil {
		t.nextEntries[e.name] = e
	}
}

// emptyLocked makes e a tombstone and notifies no client.
func (t *Table) emptyLocked(e *entry) {
	if e.res == nil {
		return
	}
	for _, h := range e.copies() {
		t.streams[h.stream].count(h.res, nil)
		t.streams[h.stream].guard.release(e.name)
	}
	t.joinWildcardLocked(e, e.res, e.member, state{})
	t.unindexLocked(e, e.res.Aliases)
	if g := e.globOf(); g != nil {
		g.live--
	}
	t.live--
	t.bytes -= int64(e.res.Size())
	t.setCopiesLocked(e, state{})
	t.tombstones.push(e)
}

// NameCost estimates the memory of a name that only one subscription asks for, in bytes, without
// the name itself.
const NameCost = 240

// interestSize estimates the memory of the interest in a name, in bytes.
func interestSize(name string) int64 {
	n := int64(NameCost + len(name))
	if resource.IsURN(name) {
		n += 160 + int64(len(name)) // its other spelling, and a share of its glob
	}
	return n
}

// entrySize estimates what a table holds for each known name, in bytes.
func entrySize(name string) int64 {
	n := int64(160 + len(name))
	if resource.IsURN(name) {
		n += 160 + int64(len(name)) // its other spelling, and a share of its glob
	}
	return n
}

const (
	tableSize = 2 << 10
	groupSize = 1 << 10
)
