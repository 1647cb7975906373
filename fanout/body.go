package fanout

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// body is a response to everybody in the same position, without the nonce. It
// is immutable.
type body struct {
	data []byte // encoded; nil if there is nothing to tell
	// to is the position of a client that has it.
	to cache.Position
	// version stands for all that the subscription sees; derived says that it
	// was computed from that content.
	version string
	derived bool
	// endpoints are the endpoint sets of the new and changed clusters in it (E3).
	endpoints *cache.Names
	withheld  *cache.Names // to be told later; see cache.Changes
	source    string       // the origin's control_plane.identifier
	resources int
	removed   int
	err       error
}

// form is how responses are written for a client. Clients share bodies only
// where their forms are equal.
type form struct {
	delta bool // the incremental variant; otherwise SotW
}

// bodyKey says for whom a body is: all clients with the same subscription, in
// the same position, with the same names to be told.
type bodyKey struct {
	subscription   uint64
	gen            uint64
	since          cache.Position
	force, refresh resource.Digest
	form           form
	keepRemoved    bool
	forced         bool
	known          bool // the origin's answer may be news without a change (K13)
}

// bodies builds each body once, however many clients ask for it at the same
// time, and keeps the recent ones within a bound of bytes.
type bodies struct {
	limit int64

	mu sync.Mutex
	// Guarded by mu.
	recent *simplelru.LRU[bodyKey, *slot]
	bytes  int64

	built, shared atomic.Uint64
}

// slot is a body that is there or is being built.
type slot struct {
	once sync.Once
	body atomic.Pointer[body]
	size int64 // guarded by bodies.mu; what bytes counts for it
}

// slotSize is roughly what a slot costs beside its data, in bytes.
const slotSize = 400

func newBodies(limit int64) *bodies {
	recent, err := simplelru.NewLRU[bodyKey, *slot](math.MaxInt, nil)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &bodies{limit: limit, recent: recent}
}

// slot returns the slot for k, which is made if there is none.
func (b *bodies) slot(k bodyKey) *slot {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.recent.Get(k)
	if ok {
		b.shared.Add(1)
		return s
	}
	s = &slot{size: slotSize}
	b.recent.Add(k, s)
	b.bytes += s.size
	return s
}

// fill returns the body of a slot, built by build if nobody did before.
// Concurrent callers wait for the one that builds.
func (b *bodies) fill(k bodyKey, s *slot, build func() *body) *body {
	s.once.Do(func() {
		made := build()
		s.body.Store(made)
		b.built.Add(1)
		b.account(k, s, int64(cap(made.data)))
	})
	return s.body.Load()
}

// account adds the size of a body that was just built, and makes room.
func (b *bodies) account(k bodyKey, s *slot, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now, ok := b.recent.Peek(k); !ok || now != s {
		return // evicted while it was built
	}
	b.bytes += size
	s.size += size
	for b.bytes > b.limit {
		_, old, ok := b.recent.RemoveOldest()
		if !ok {
			return
		}
		b.bytes -= old.size
	}
}

// buildBody asks the cache and encodes the answer. It runs once per bodyKey.
func (s *Server) buildBody(ts *typeState, q cache.Query, f form) *body {
	c, err := ts.table.Changes(&ts.watcher, q)
	if err != nil {
		return &body{err: errTooFarBehind}
	}
	b := &body{
		to: c.To, version: c.Version, derived: c.Derived, source: c.Source, withheld: c.Withheld,
		resources: len(c.Resources), removed: len(c.Removed),
	}
	t := ts.table.Type
	partialSotW := !f.delta && !t.FullState
	if c.Empty() || partialSotW && len(c.Resources) == 0 { // B32
		return b
	}
	b.data = s.encode(t, f, &c)
	b.endpoints = endpointsOf(c.News)
	return b
}

func (s *Server) encode(t *resource.Type, f form, c *cache.Changes) []byte {
	size := 256
	for _, r := range c.Resources {
		size += len(r.Name) + len(r.Version) + len(r.Body) + len(r.Extra) + 32
	}
	for _, n := range c.Removed {
		size += len(n) + 8
	}
	m := &resource.Message{
		Type: t, Version: c.Version, ControlPlane: s.identifier(c.Source), Resources: c.Resources, Removed: c.Removed,
	}
	if f.delta {
		return resource.AppendDelta(make([]byte, 0, size), m)
	}
	return resource.AppendSotW(make([]byte, 0, size), m)
}

// identifier is what clients see as control_plane.identifier: this node and
// the origin behind it (K7).
func (s *Server) identifier(source string) string {
	if source == "" {
		return s.cfg.NodeName
	}
	return s.cfg.NodeName + " <- " + source
}

func endpointsOf(rs []*resource.Resource) *cache.Names {
	var names []string
	for _, r := range rs {
		if r.Endpoints != "" {
			names = append(names, r.Endpoints)
		}
	}
	return cache.NewNames(names)
}
