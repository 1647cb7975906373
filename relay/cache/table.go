package cache

import (
	"maps"
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
	aliases map[string][]*entry // see eachOfLocked
	globs   map[string]*glob    // of all structured names, and those that are wanted
	changes list                // every entry, by generation
	graves  list                // tombstones only, roughly by age
	floor   uint64              // tombstones up to here may be gone
	// The same for those that somebody may know by an alias.
	aliasFloor uint64
	live       int
	bytes      int64
	digest     resource.Digest // of all live resources
	fed        Stats

	// Guarded by mu: who wants what.
	subs  map[subKey]*Subscription
	wants map[string]*want
	wild  want
	// spelled is how the origin is asked for names that were not asked for in
	// their canonical form.
	spelled map[string]string

	// Guarded by mu: what the origins were asked, and have answered.
	seq     uint64 // numbers what is wanted
	legs    []tableLeg
	waiting map[*Subscription]struct{} // wait for an answer
}

// Stats count what was done to a table.
type Stats struct {
	Updates, Changes, Ignored uint64
}

// everything is the name of the wildcard.
const everything = "*"

func newTable(g *Group, t *resource.Type) *Table {
	return &Table{
		Type: t, group: g, seeds: newSeeds(),
		entries: make(map[string]*entry),
		aliases: make(map[string][]*entry),
		changes: list{at: changesLink},
		graves:  list{at: gravesLink},
		subs:    make(map[subKey]*Subscription),
		wants:   make(map[string]*want),
		wild:    want{leg: g.cache.cfg.Route(t, everything)},
		legs:    newTableLegs(len(g.cache.cfg.Legs)),
		waiting: make(map[*Subscription]struct{}),
	}
}

// nextID numbers the contents of subscriptions across all tables.
func (t *Table) nextID() uint64 { return t.group.cache.lastID.Add(1) }

// setLocked gives name the state res (nil: absent) at the newest generation,
// and marks the subscriptions that can see it. first is the generation of the
// first change of the same update. t.mu must be held.
func (t *Table) setLocked(name string, res *resource.Resource, held string, first uint64, woken map[*Subscription]struct{}) {
	e := t.entries[name]
	if e == nil {
		if w := t.wants[name]; w != nil && w.leg != Nobody {
			delete(t.legs[w.leg].unanswered, name)
		}
		e = &entry{name: name}
		t.entries[name] = e
		t.enrolLocked(e)
		t.bytes += entrySize(name)
	} else {
		t.changes.remove(e)
		if e.res == nil {
			t.graves.remove(e)
		}
	}
	old := e.res
	t.markLocked(e, old, res, woken)
	if old != nil {
		t.live--
		t.bytes -= int64(old.Size())
		t.digest = t.digest.Sub(old.Member())
	}
	t.renameLocked(e, old, res)
	t.keepLastLocked(e, old, res)
	e.res, e.held, e.gen, e.first = res, held, t.gen, first
	t.changes.push(e)
	t.countLocked(e, old, first, woken)
	if res == nil {
		t.graves.push(e)
		t.reapLocked()
		return
	}
	if e.urn != nil {
		e.urn.spelled = res.Name
	}
	t.live++
	t.bytes += int64(res.Size())
	t.digest = t.digest.Add(res.Member())
}

// markLocked brings the subscriptions that see old or res up to date and adds
// them to woken. It costs as much as there are such subscriptions.
func (t *Table) markLocked(e *entry, old, res *resource.Resource, woken map[*Subscription]struct{}) {
	mark := func(s *Subscription) {
		s.gen = t.gen
		woken[s] = struct{}{}
	}
	for s := range t.wild.subs {
		mark(s)
	}
	for _, r := range [...]*resource.Resource{old, res} {
		if r == nil {
			continue
		}
		for s := range t.namedLocked(e, r.Aliases) {
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
		if w := t.wants[e.name]; w != nil {
			for s := range w.subs {
				mark(s)
			}
		}
	}
}

// namedLocked returns the subscriptions that ask for e by its name, an alias or
// its glob, each once.
func (t *Table) namedLocked(e *entry, aliases []string) (subs map[*Subscription]struct{}) {
	shared := true // subs belongs to a want
	add := func(name string) {
		w := t.wants[name]
		switch {
		case w == nil || len(w.subs) == 0:
			return
		case len(subs) == 0:
			subs = w.subs
			return
		case shared:
			subs, shared = maps.Clone(subs), false
		}
		maps.Copy(subs, w.subs)
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

// reapLocked bounds the tombstones. Those of names that are wanted stay as long
// as the demand does (D5): the origin says only once that there is none. Of the
// rest as many stay as the table has resources, or the configured least number.
// A client that is further behind is told to start anew; see [ErrTooOld].
func (t *Table) reapLocked() {
	limit := max(t.group.cache.cfg.Tombstones, t.live) + len(t.wants)
	for range reapAtOnce {
		e := t.graves.oldest
		switch {
		case t.graves.len <= limit:
			return
		case t.wants[e.name] != nil:
			t.graves.remove(e)
			t.graves.push(e)
			continue
		case len(e.former) > 0:
			t.aliasFloor = max(t.aliasFloor, e.gen)
		}
		if g := e.globOf(); g != nil {
			g.floor = max(g.floor, e.gen)
		}
		t.floor = max(t.floor, e.gen)
		t.eraseLocked(e)
	}
}

// reapAtOnce bounds the tombstones that are looked at for each new one. More
// than one, so that their number comes down again when it is too high.
const reapAtOnce = 4

// eraseLocked forgets e altogether, without telling anybody.
func (t *Table) eraseLocked(e *entry) {
	if e.res != nil {
		t.live--
		t.bytes -= int64(e.res.Size())
		t.digest = t.digest.Sub(e.res.Member())
		t.unindexLocked(e, e.res.Aliases)
	} else {
		t.graves.remove(e)
	}
	t.unindexLocked(e, e.former)
	t.struckLocked(e)
	t.keepLastLocked(e, nil, nil)
	t.changes.remove(e)
	t.bytes -= entrySize(e.name)
	delete(t.entries, e.name)
}

// Roughly what the tables themselves hold, in bytes: for each name, and
// altogether.
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
