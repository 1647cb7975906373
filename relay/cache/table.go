package cache

import (
	"sync"

	"xdsrelay/relay/resource"
)

// Table holds all resources of one type for one key, with a generation number
// that grows with each change.
type Table struct {
	// Fixed after construction.
	Type  *resource.Type
	group *Group
	seeds seeds

	mu sync.RWMutex
	// Guarded by mu: what the origin serves.
	gen     uint64 // of the newest change; 0: never changed
	entries map[string]*entry
	aliases map[string]*entry // B38
	changes list              // every entry, by generation
	graves  list              // tombstones only, by age
	floor   uint64            // tombstones up to here may be gone
	live    int
	bytes   int64
	digest  resource.Digest // of all live resources
	version string          // version_info, while the table is exactly what a SotW origin sent (D7)
	source  string          // the origin's control_plane.identifier (K7)
	fed     Stats

	// Guarded by mu: who wants what.
	subs    map[subKey]*Subscription
	wants   map[string]*want
	wild    want
	wildSub map[*Subscription]struct{}

	// Guarded by mu: what the origin was asked, and has answered. Each new
	// name is given the next number; the origin has answered for all that it
	// had been asked when a response came (K13).
	seq, asked, answered uint64
	waiting              map[*Subscription]struct{} // wait for an answer
	dirty                map[string]struct{}        // names to ask or to drop
	dirtyAll             bool                       // the wildcard was joined or left
	held                 bool                       // see Group.resume
}

// Stats count what was done to a table.
type Stats struct {
	Updates, Changes, Ignored uint64
}

func newTable(g *Group, t *resource.Type) *Table {
	return &Table{
		Type: t, group: g, seeds: newSeeds(),
		entries: make(map[string]*entry),
		aliases: make(map[string]*entry),
		changes: list{at: changesLink},
		graves:  list{at: gravesLink},
		subs:    make(map[subKey]*Subscription),
		wants:   make(map[string]*want),
		wildSub: make(map[*Subscription]struct{}),
		waiting: make(map[*Subscription]struct{}),
		dirty:   make(map[string]struct{}),
	}
}

// lookupLocked finds an entry by name or alias.
// It must be called with t.mu held, at least for reading.
func (t *Table) lookupLocked(name string) *entry {
	if e := t.entries[name]; e != nil {
		return e
	}
	return t.aliases[name]
}

// nextID numbers the contents of subscriptions across all tables.
func (t *Table) nextID() uint64 { return t.group.cache.lastID.Add(1) }

// setLocked gives name the state res (nil: absent) at generation gen, and
// marks the subscriptions that can see it. t.mu must be held.
func (t *Table) setLocked(name string, res *resource.Resource, held string, gen uint64, woken map[*Subscription]struct{}) {
	e := t.entries[name]
	if e == nil {
		e = &entry{name: name}
		t.entries[name] = e
		t.bytes += entrySize(name)
	} else {
		t.changes.remove(e)
		if e.res == nil {
			t.graves.remove(e)
		}
	}
	old := e.res
	t.markLocked(e, old, res, gen, woken)
	if old != nil {
		t.live--
		t.bytes -= int64(old.Size())
		t.digest = t.digest.Sub(old.Member())
		t.dropAliasesLocked(e)
	}
	t.keepLastLocked(e, old, res)
	e.res, e.held, e.gen = res, held, gen
	t.changes.push(e)
	if res == nil {
		t.graves.push(e)
		t.reapLocked()
		return
	}
	t.live++
	t.bytes += int64(res.Size())
	t.digest = t.digest.Add(res.Member())
	for _, a := range res.Aliases {
		t.aliases[a] = e
	}
}

// markLocked brings the subscriptions that see old or res up to date and adds
// them to woken. It costs as much as there are such subscriptions.
func (t *Table) markLocked(e *entry, old, res *resource.Resource, gen uint64, woken map[*Subscription]struct{}) {
	mark := func(s *Subscription) {
		s.gen = gen
		woken[s] = struct{}{}
	}
	for s := range t.wildSub {
		mark(s)
	}
	for _, r := range [...]*resource.Resource{old, res} {
		if r == nil {
			continue
		}
		for s := range t.namedLocked(e.name, r.Aliases) {
			mark(s)
			if s.key.wildcard {
				continue
			}
			if r == old {
				s.live--
				s.digest = s.digest.Sub(r.Member())
			} else {
				s.live++
				s.digest = s.digest.Add(r.Member())
			}
		}
	}
	if old == nil && res == nil {
		for s := range t.namedLocked(e.name, nil) {
			mark(s)
		}
	}
}

// namedLocked returns the subscriptions that ask for name or an alias, each
// once.
func (t *Table) namedLocked(name string, aliases []string) map[*Subscription]struct{} {
	w := t.wants[name]
	if len(aliases) == 0 {
		if w == nil {
			return nil
		}
		return w.subs
	}
	all := make(map[*Subscription]struct{})
	for _, n := range append([]string{name}, aliases...) {
		if w := t.wants[n]; w != nil {
			for s := range w.subs {
				all[s] = struct{}{}
			}
		}
	}
	return all
}

// keepLastLocked keeps the resource of a new tombstone where a SotW client may
// have to be shown it a little longer.
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

func (t *Table) dropAliasesLocked(e *entry) {
	for _, a := range e.res.Aliases {
		if t.aliases[a] == e {
			delete(t.aliases, a)
		}
	}
}

// reapLocked bounds the tombstones. Those of names that somebody asks for stay
// as long as the demand does (D5); of the rest as many stay as the table has
// resources, or the configured least number. A client that is further behind
// is told to start anew; see [ErrTooOld].
func (t *Table) reapLocked() {
	limit := max(t.group.cache.cfg.Tombstones, t.live) + len(t.wants)
	for t.graves.len > limit {
		e := t.graves.oldest
		t.graves.remove(e)
		if w := t.wants[e.name]; w != nil && len(w.subs) > 0 {
			t.graves.push(e)
			return // the next removal looks at the next oldest
		}
		t.floor = max(t.floor, e.gen)
		t.eraseLocked(e)
	}
}

// eraseLocked forgets e altogether, without telling anybody.
func (t *Table) eraseLocked(e *entry) {
	if e.res != nil {
		t.live--
		t.bytes -= int64(e.res.Size())
		t.digest = t.digest.Sub(e.res.Member())
		t.dropAliasesLocked(e)
	}
	t.keepLastLocked(e, nil, nil)
	t.changes.remove(e)
	t.bytes -= entrySize(e.name)
	delete(t.entries, e.name)
}

// entrySize is roughly what the table itself holds for a name, in bytes.
func entrySize(name string) int64 { return int64(160 + len(name)) }
