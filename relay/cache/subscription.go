package cache

import (
	"hash/maphash"
	"sync/atomic"

	"xdsrelay/relay/cache/recent"
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// Subscription is the interest of some clients in a type: names, the wildcard, or both. Clients
// with the same interest share one Subscription. It changes only while a single client holds it, so
// it is immutable to all others.
type Subscription struct {
	// Fixed after construction.
	table *Table

	// Guarded by table.mu.
	key       subKey
	id        uint64 // new for each content: identifies bodies built for it
	names     map[string]struct{}
	globs     int             // how many of the names are globs
	open      string          // the newest name that a stream had not answered; see streamKnown
	waits     []wait          // for answers; one for each stream that still has to answer
	gen       uint64          // newest generation that it may see; never too small
	noted     uint64          // newest note that it may see, except for heartbeats; never too small
	heartbeat uint64          // newest heartbeat that it may see; never too small
	live      int             // resources that it sees by name
	digest    resource.Digest // of those
	members   seenMembers     // the part of those that belongs to the wildcard set
	perStream []int           // its interests by stream; nil if there is only one stream
	private   bool            // it asks for a resource that must not be cached (K17)
	firm      uint64          // the id with which it had no names to yield; see [Table.yield]
	updates   recent.Mask     // those that concern it
	watchers  *Watcher        // those that have not agreed to later wakes
	paced     *Watcher        // the others; see [Table.Pace]
	count     int             // of both

	proof atomic.Pointer[proof] // of a client that returned; not guarded by table.mu
}

// seenMembers are members of the wildcard set that a subscription sees by name, too. They are
// counted with and without the wildcard, so that joining and leaving it costs nothing.
type seenMembers struct {
	live   int
	digest resource.Digest
}

// subKey identifies the content of a subscription by a sum over its names, so that adding a name to
// a large set costs one addition. The hashes are seeded per table, so a client cannot construct two
// sets with one key.
type subKey struct {
	sum      [2]uint64
	len      int
	bytes    int // of the names
	wildcard bool
	step     uint64 // not 0 during an edit in steps: no other client shares it
}

// except returns the names of s, which may be nil, that are not among names.
func (s *Subscription) except(names []string) (rest []string) {
	if s == nil {
		return nil
	}
	among := make(map[string]struct{}, len(names))
	for _, n := range names {
		among[n] = struct{}{}
	}
	for n := range s.names {
		if _, is := among[n]; !is {
			rest = append(rest, n)
		}
	}
	return rest
}

// size is the size of the names in a request, in bytes.
func (k *subKey) size() int { return k.bytes + k.len*nameOverhead }

type seeds [2]maphash.Seed

func newSeeds() seeds { return seeds{maphash.MakeSeed(), maphash.MakeSeed()} }

// key is the key of a subscription to names. A repeated name counts twice, so that the result
// matches no subscription.
func (s *seeds) key(wildcard bool, names []string) subKey {
	k := subKey{wildcard: wildcard}
	for _, n := range names {
		k.add(s, n)
	}
	return k
}

// listKey is key for a list that may contain the wildcard, too. It allocates nothing. ok is false
// if the list has structured names: these have many spellings, and cover other names.
func (s *seeds) listKey(wildcard bool, names resource.NameList) (k subKey, ok bool) {
	k.wildcard = wildcard
	for n := range names.All() {
		switch {
		case string(n) == everything:
			k.wildcard = true
		case resource.IsURNBytes(n):
			return k, false
		default:
			k.sum[0] += maphash.Bytes(s[0], n)
			k.sum[1] += maphash.Bytes(s[1], n)
			k.len++
			k.bytes += len(n)
		}
	}
	return k, true
}

func (k *subKey) add(s *seeds, name string) {
	k.sum[0] += maphash.String(s[0], name)
	k.sum[1] += maphash.String(s[1], name)
	k.len++
	k.bytes += len(name)
}

func (k *subKey) drop(s *seeds, name string) {
	k.sum[0] -= maphash.String(s[0], name)
	k.sum[1] -= maphash.String(s[1], name)
	k.len--
	k.bytes -= len(name)
}

// place positions s, whose content is new, at the present state of the table.
func (t *core) place(s *Subscription) {
	s.gen, s.updates = t.store.Gen(), t.updates.Fresh()
	if r := t.notes.Newest(); r != nil {
		s.noted = r.Note()
	}
	if e := t.store.NewestHeartbeat(); e != nil {
		s.heartbeat = e.TTLState.Noted
	}
}

// recount computes what s sees by name.
func (t *core) recount(s *Subscription) {
	s.live, s.digest, s.members = 0, resource.Digest{}, seenMembers{}
	t.eachNamed(s, func(e *table.Entry) {
		if e.Res != nil && s.asksFor(e) {
			s.recount(e.Share(), e.Res.Member())
		}
	})
}

// recount adds sh, whose digest is d, to what s sees by name.
func (s *Subscription) recount(sh table.Share, d resource.Digest) {
	s.live++
	s.digest = s.digest.Add(d)
	if sh.Member {
		s.members.live++
		s.members.digest = s.members.digest.Add(d)
	}
}

// uncount reverses a recount.
func (s *Subscription) uncount(sh table.Share, d resource.Digest) {
	s.live--
	s.digest = s.digest.Sub(d)
	if sh.Member {
		s.members.live--
		s.members.digest = s.members.digest.Sub(d)
	}
}

// sees returns what s sees of e, by name, alias (B38) or glob (G6), or as a member of the
// wildcard set (D11): whether there is a resource, and the generation of the last change; 0 if s
// never saw e.
func (s *Subscription) sees(e *table.Entry) (there bool, gen uint64) {
	switch {
	case s.key.wildcard && e.Member && e.Wild == e.Named:
		return true, e.Wild // the same either way
	case s.asksFor(e):
		return e.Res != nil, e.Named
	case s.key.wildcard:
		return e.Member, e.Wild
	}
	return false, 0
}

// asksFor reports whether s asks for e by name, alias or glob.
func (s *Subscription) asksFor(e *table.Entry) bool {
	if s.globs > 0 && e.Glob() != nil {
		if _, ok := s.names[e.Glob().Name]; ok {
			return true
		}
	}
	return s.means(e)
}

// means reports whether s asks for exactly e, by name or alias.
func (s *Subscription) means(e *table.Entry) bool {
	if _, ok := s.names[e.Name]; ok {
		return true
	}
	if e.Res != nil {
		for _, a := range e.Res.Aliases {
			if _, ok := s.names[a]; ok {
				return true
			}
		}
	}
	return false
}

// saw reports whether s asks for e by a former alias.
func (s *Subscription) saw(e *table.Entry) bool {
	for _, a := range e.Former() {
		if _, ok := s.names[a]; ok {
			return true
		}
	}
	return false
}

// misses reports whether s asks by name for the tombstone e and no alias replaces it, or used
// to see it by an alias.
func (t *core) misses(s *Subscription, e *table.Entry) bool {
	return e.Res == nil && (s.saw(e) || s.means(e) && !t.store.Exists(e.Name))
}
