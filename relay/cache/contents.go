package cache

import (
	"sync/atomic"
	"unsafe"

	"xdsrelay/relay/cache/list"
	"xdsrelay/relay/lockorder"
	"xdsrelay/relay/resource"
)

// Bounds of what is recorded of one update, besides the counts.
const (
	namesPerUpdate    = 10   // that are always recorded, of each kind of change
	contentsPerUpdate = 1000 // added, changed and removed resources, each, whose names and previous contents are recorded
)

// Previous contents need no copy: the table hands over what it replaces. So the store counts the
// memory that would be free otherwise, and a body that several keys had counts once.

// contents are the previous contents of the resources that an update changed or removed.
type contents struct {
	table *core
	edits []edit // with from
	// Guarded by the store's mu.
	bytes int64
	kept  bool // in the list of the store
	link  list.Link[contents]
}

// contentStore bounds the previous contents of all keys. The newest ones stay. All methods are safe
// for concurrent use, and may be called with a table's mu held.
type contentStore struct {
	limit int64 // fixed

	used atomic.Int64 // replaced with mu held

	mu lockorder.Mutex[lockorder.Leaf]
	// Guarded by mu.
	all    list.List[contents]
	bodies map[*byte]int32 // how often a body is in the list, by its first byte
}

func newContentStore(limit int64) *contentStore {
	return &contentStore{limit: limit, all: list.New(func(c *contents) *list.Link[contents] { return &c.link }), bodies: make(map[*byte]int32)}
}

// editSize is the memory of an edit without its content.
const editSize = int64(unsafe.Sizeof(edit{}))

// add keeps contents. The caller makes room later, with trim, when no lock is held.
func (s *contentStore) add(c *contents) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.kept = true
	s.all.Push(c)
	s.countLocked(c, 1)
}

// countLocked counts contents, or with sign -1 no longer counts them.
func (s *contentStore) countLocked(c *contents, sign int64) {
	var used, own int64
	for i := range c.edits {
		e := &c.edits[i]
		own += editSize + int64(len(e.name))
		if e.from == nil {
			continue
		}
		size := int64(e.from.Size())
		own += size
		first := unsafe.SliceData(e.from.Body)
		if first == nil {
			used += size
			continue
		}
		n := s.bodies[first]
		if n == 0 || n == 1 && sign < 0 {
			used += size
		}
		if n += int32(sign); n == 0 {
			delete(s.bodies, first)
		} else {
			s.bodies[first] = n
		}
	}
	used += int64(len(c.edits)) * editSize
	s.used.Add(sign * used)
	c.bytes = max(0, sign*own)
	c.table.pastBytes.Add(sign * own)
}

// release forgets contents; nil is none.
func (s *contentStore) release(c *contents) {
	if c == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(c)
}

func (s *contentStore) releaseLocked(c *contents) {
	if !c.kept {
		return
	}
	s.all.Remove(c)
	s.countLocked(c, -1)
	c.kept, c.edits = false, nil
}

// trim forgets the oldest contents of all keys until the rest takes at most most bytes. No lock may
// be held: others may use the store meanwhile.
func (s *contentStore) trim(most int64) {
	for s.used.Load() > most {
		s.mu.Lock()
		oldest := s.all.Oldest()
		if oldest != nil {
			s.releaseLocked(oldest)
		}
		s.mu.Unlock()
		if oldest == nil {
			return
		}
	}
}

// read returns the edits of contents, which must not be changed; false if they are forgotten.
func (s *contentStore) read(c *contents) ([]edit, bool) {
	if c == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.edits, c.kept
}

// HistoryBytes is the memory of the previous contents of all keys, at most about
// [Config.HistoryBytes]. A body that several keys had is counted once.
func (c *Cache) HistoryBytes() int64 { return c.past.used.Load() }

// DropHistory forgets the previous contents of all keys. The names stay.
func (c *Cache) DropHistory() { c.past.trim(0) }

// keepsContents reports whether the previous contents of the table are recorded: never those of
// secrets, nor those that belong to one client or identity.
func (t *core) keepsContents() bool {
	return t.group.cache.cfg.HistoryBytes > 0 && !t.group.private && !resource.HoldsSecrets(t.Type.URL)
}

// edit is what an update did to one resource.
type edit struct {
	name string // canonical
	kind editKind
	// from is the content before; nil if there was none, or if it is not recorded.
	from *resource.Resource
}

// editKind is how a resource changed.
type editKind uint8

const (
	edAdded editKind = iota
	edChanged
	edRemoved
)

// record records what the update does to a resource, which is the nth of this kind.
func (u *updateTxn) record(name string, kind editKind, from *resource.Resource, nth uint32) {
	t := u.table
	if t.group.private || t.group.cache.cfg.History <= 0 {
		return
	}
	keeps := nth <= contentsPerUpdate && t.keeps
	if !keeps && nth > namesPerUpdate {
		return
	}
	if !keeps {
		from = nil
	}
	if u.edits == nil {
		u.edits, t.spareEdits = t.spareEdits, nil
	}
	u.edits = append(u.edits, edit{name, kind, from})
}

// mostSpare bounds the memory that a table keeps for the edits of its next update: most updates change
// few resources.
const mostSpare = 4

// spare keeps the memory of edits, to which nothing else may refer, for the next update.
func (t *core) spare(edits []edit) {
	if c := cap(edits); c > 0 && c <= mostSpare {
		clear(edits)
		t.spareEdits = edits[:0]
	}
}

// changedNames are the first names that an update changed, of each kind. They are never changed.
type changedNames struct {
	only  string   // if there is one
	all   []string // by kind, if there are several
	until [3]uint8 // how many there are up to each kind
}

// firstNames returns the first names of each kind.
func firstNames(edits []edit) (n changedNames) {
	if len(edits) == 0 {
		return n
	}
	if len(edits) == 1 { // without an allocation, since most updates are such
		n.only = edits[0].name
		for kind := edits[0].kind; kind <= edRemoved; kind++ {
			n.until[kind] = 1
		}
		return n
	}
	n.all = make([]string, 0, min(len(edits), 3*namesPerUpdate))
	for kind := edAdded; kind <= edRemoved; kind++ {
		from := len(n.all)
		for i := range edits {
			if edits[i].kind == kind && len(n.all)-from < namesPerUpdate {
				n.all = append(n.all, edits[i].name)
			}
		}
		n.until[kind] = uint8(len(n.all))
	}
	return n
}

// of returns the names of a kind.
func (n *changedNames) of(kind editKind) []string {
	from := uint8(0)
	if kind > edAdded {
		from = n.until[kind-1]
	}
	switch {
	case n.all != nil:
		return n.all[from:n.until[kind]]
	case from < n.until[kind]:
		return []string{n.only}
	}
	return nil
}

// edits returns the names as edits without contents.
func (n *changedNames) edits() []edit {
	out := make([]edit, 0, n.until[edRemoved])
	for kind := edAdded; kind <= edRemoved; kind++ {
		for _, name := range n.of(kind) {
			out = append(out, edit{name: name, kind: kind})
		}
	}
	return out
}

// hasContents reports whether one of the edits has one.
func hasContents(edits []edit) bool {
	for i := range edits {
		if edits[i].from != nil {
			return true
		}
	}
	return false
}
