package table

import (
	"maps"
	"time"

	"xdsrelay/relay/cache/guarded"
	"xdsrelay/relay/cache/list"
	"xdsrelay/relay/resource"
)

// Store has what is known of the names of one type. Each change gets the next generation, and the
// entries are in the order of their last change. One goroutine changes a Store at a time, while no
// other one reads it; see [Store.Guard].
type Store struct {
	guard guarded.Guard

	// Fixed after construction.
	fullState bool                   // the resource before a removal is kept; see Entry.Last
	wanted    func(name string) bool // there is interest in a name

	gen        uint64              // of the newest change; 0: never changed
	entries    map[string]*Entry   // only add and Forget add and remove
	fitted     map[string]*Entry   // the copy that Fit is making; nil while it makes none
	moved      uint64              // how often a copy has replaced entries
	aliases    map[string][]*Entry // see EachOf
	globs      map[string]*Glob    // of all structured names, and the globs with interest
	changes    list.List[Entry]    // every entry, by generation
	tombstones list.List[Entry]    // tombstones only, roughly by age
	floor      uint64              // tombstones up to here may be gone
	// aliasFloor is the same for tombstones that clients may know by an alias.
	aliasFloor uint64
	live       int // resources, including those that no client sees
	bytes      int64
	members    int             // resources in the wildcard set
	digest     resource.Digest // of the wildcard set
	sums       []Sum           // by stream
	// uncacheable holds the names by which clients may ask for resources that must not be cached
	// (K17), with the name of the resource. It is nil until there is one.
	uncacheable map[string]string

	// A note is the number of something that clients are sent without a change of a resource. It
	// grows with each.
	notes      uint64           // number of the newest note
	heartbeats list.List[Entry] // entries that clients know with a TTL, by their newest note
	deadlines  deadlines        // of all copies that have one
}

// Guard makes each use of the store call check, which panics if the goroutine must not use it: changes
// says that the store may be changed, not only read. It does nothing without the race detector.
func (s *Store) Guard(check func(changes bool)) { s.guard.By(check) }

// New makes an empty store for a type of a key with a number of streams. wanted reports whether
// there is interest in a name; the store calls it while it is being changed.
func New(typ *resource.Type, streams int, wanted func(name string) bool) Store {
	return Store{
		fullState: typ.FullState, wanted: wanted,
		entries:    make(map[string]*Entry),
		aliases:    make(map[string][]*Entry),
		changes:    list.New(changesLink),
		tombstones: list.New(tombstoneLink),
		heartbeats: list.New(heartbeatLink),
		sums:       make([]Sum, streams),
	}
}

// Gen is the generation of the newest change; 0 if nothing ever changed.
func (s *Store) Gen() uint64 {
	s.guard.Reading()
	return s.gen
}

// Next begins a change, and returns its generation.
func (s *Store) Next() uint64 {
	s.guard.Writing()
	s.gen++
	return s.gen
}

// Get returns the entry of a canonical name, nil if nothing is known of it.
func (s *Store) Get(name string) *Entry {
	s.guard.Reading()
	return s.entries[name]
}

// GetBytes is [Store.Get] of a name in bytes, which it does not keep.
func (s *Store) GetBytes(name []byte) *Entry {
	s.guard.Reading()
	return s.entries[string(name)]
}

// Len is the number of entries.
func (s *Store) Len() int {
	s.guard.Reading()
	return len(s.entries)
}

// Live is the number of resources, including those that no client sees.
func (s *Store) Live() int {
	s.guard.Reading()
	return s.live
}

// Tombstones is the number of names that are known to be absent.
func (s *Store) Tombstones() int {
	s.guard.Reading()
	return s.tombstones.Len()
}

// Bytes estimates the memory of the store.
func (s *Store) Bytes() int64 {
	s.guard.Reading()
	return s.bytes
}

// Wildcard returns the digest of the wildcard set, and the number of resources in it.
func (s *Store) Wildcard() (digest resource.Digest, members int) {
	s.guard.Reading()
	return s.digest, s.members
}

// All is the digest of the whole content: of the wildcard set, and of each stream's content if there
// are several.
func (s *Store) All() resource.Digest {
	s.guard.Reading()
	all := s.digest
	if len(s.sums) > 1 {
		for i := range s.sums {
			all = all.Add(s.sums[i].Digest)
		}
	}
	return all
}

// Floors are generations: tombstones of members of the wildcard set up to all, and those that
// clients may know by an alias up to aliases, may be forgotten.
func (s *Store) Floors() (all, aliases uint64) {
	s.guard.Reading()
	return s.floor, s.aliasFloor
}

// Newest is the entry that changed last, nil if there is none; see [Entry.Older].
func (s *Store) Newest() *Entry {
	s.guard.Reading()
	return s.changes.Newest()
}

// Oldest is the entry that has not changed for the longest time, nil if there is none; see
// [Entry.Newer].
func (s *Store) Oldest() *Entry {
	s.guard.Reading()
	return s.changes.Oldest()
}

// Note begins a note, and returns its number.
func (s *Store) Note() uint64 {
	s.guard.Writing()
	s.notes++
	return s.notes
}

// Notes is the number of the newest note.
func (s *Store) Notes() uint64 {
	s.guard.Reading()
	return s.notes
}

// Open returns the entry of a name that is about to change; [Store.Put] has to follow. It adds one
// where nothing is known of the name.
func (s *Store) Open(name string) (e *Entry, added bool) {
	s.guard.Writing()
	if e = s.entries[name]; e != nil {
		s.changes.Remove(e)
		if e.Res == nil {
			s.tombstones.Remove(e)
		}
		return e, false
	}
	e = &Entry{Name: name}
	s.add(e)
	s.indexGlob(e)
	s.bytes += entrySize(name)
	return e, true
}

// Put gives an entry that is open a state, at the newest generation and a time. first is the
// generation of the first change of the same update. It returns the previous resource. If there is
// none now, [Store.AddTombstone] has to follow.
func (s *Store) Put(e *Entry, st State, first uint64, now time.Time) (old *resource.Resource) {
	s.guard.Writing()
	named, wild := e.Differs(&st)
	was, res := e.Member, st.Res
	old = e.Res
	if old == nil && res != nil {
		e.Born = s.gen
		if e.Lived == 0 {
			e.Lived = s.gen
		}
	}
	if named {
		s.replace(e, res)
		e.Named = s.gen
	}
	s.joinWildcard(e, old, was, &st)
	if wild {
		e.Wild = s.gen
	}
	s.SetCopies(e, st)
	s.SetGap(e, Gap{})
	e.Gen, e.First, e.Changed = s.gen, first, now.UnixMilli()
	s.changes.Push(e)
	s.countGlob(e, old)
	if res != nil && e.Structured() {
		e.rare.urn.spelled = res.Name
	}
	if res != nil {
		e.slim()
	}
	return old
}

// SetGap records that clients need not learn of the last removal of e.
func (s *Store) SetGap(e *Entry, g Gap) {
	s.guard.Writing()
	if e.Gap() != g {
		e.with().gap = g
	}
}

// replace counts res instead of e.Res, and updates the aliases.
func (s *Store) replace(e *Entry, res *resource.Resource) {
	if e.Res != nil {
		s.live--
		s.bytes -= int64(e.Res.Size())
	}
	if res != nil {
		s.live++
		s.bytes += int64(res.Size())
	}
	s.rename(e, e.Res, res)
	s.keepLast(e, e.Res, res)
}

// joinWildcard updates the wildcard set from old to st.
func (s *Store) joinWildcard(e *Entry, old *resource.Resource, was bool, st *State) {
	if was {
		s.members--
		s.digest = s.digest.Sub(old.Member())
	}
	if e.Member = st.Member; st.Member {
		s.members++
		s.digest = s.digest.Add(st.Res.Member())
	}
}

// keepLast keeps the resource of a new tombstone where a SotW client may need to see it a little
// longer.
func (s *Store) keepLast(e *Entry, old, res *resource.Resource) {
	if last := e.Last(); last != nil {
		s.bytes -= int64(last.Size())
		e.rare.last = nil
	}
	if res == nil && old != nil && s.fullState {
		s.bytes += int64(old.Size())
		e.with().last = old
	}
}

func (s *Store) add(e *Entry) {
	s.entries[e.Name] = e
	if s.fitted != nil {
		s.fitted[e.Name] = e
	}
}

// entrySize estimates what a store holds for each known name, in bytes.
func entrySize(name string) int64 {
	n := int64(160 + len(name))
	if resource.IsURN(name) {
		n += 160 + int64(len(name)) // its other spelling, and a share of its glob
	}
	return n
}

// SetUncacheable records that the resource of a canonical name, for which clients may ask by any of
// names, must not be cached.
func (s *Store) SetUncacheable(name string, names []string) {
	s.guard.Writing()
	if s.uncacheable == nil {
		s.uncacheable = make(map[string]string)
	}
	for _, n := range names {
		s.uncacheable[n] = name
	}
}

// ClearUncacheable forgets that the resource of a canonical name must not be cached.
func (s *Store) ClearUncacheable(name string) {
	s.guard.Writing()
	if s.uncacheable[name] == name {
		maps.DeleteFunc(s.uncacheable, func(_, key string) bool { return key == name })
	}
}

// Uncacheable returns the resources that must not be cached: for each name by which clients may ask
// for one, its canonical name. The map must not be changed.
func (s *Store) Uncacheable() map[string]string {
	s.guard.Reading()
	return s.uncacheable
}
