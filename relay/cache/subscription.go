package cache

import (
	"hash/maphash"
	"maps"

	"xdsrelay/relay/resource"
)

// Subscription is what some clients want of a type: names, the wildcard, or
// both. Clients that want the same share one Subscription. It changes only
// while a single client holds it, so to everybody else it is immutable.
type Subscription struct {
	// Fixed after construction.
	table *Table

	// Guarded by table.mu.
	key      subKey
	id       uint64 // new for each content: identifies bodies built for it
	names    map[string]struct{}
	seq      uint64          // newest demand that it depends on; see Table.answered
	gen      uint64          // newest generation that it may see; never too small
	live     int             // resources it sees by name (not kept with a wildcard)
	digest   resource.Digest // of those
	watchers *Watcher
	count    int
}

// subKey identifies the content of a subscription: a sum over its names, so
// that adding a name to a large set costs one addition. The hashes are seeded
// per table, so a client cannot construct two sets with one key.
type subKey struct {
	sum      [2]uint64
	len      int
	wildcard bool
}

type seeds [2]maphash.Seed

func newSeeds() seeds { return seeds{maphash.MakeSeed(), maphash.MakeSeed()} }

func (k *subKey) add(s *seeds, name string) {
	k.sum[0] += maphash.String(s[0], name)
	k.sum[1] += maphash.String(s[1], name)
	k.len++
}

func (k *subKey) drop(s *seeds, name string) {
	k.sum[0] -= maphash.String(s[0], name)
	k.sum[1] -= maphash.String(s[1], name)
	k.len--
}

// Watcher is one client's interest in one table. It belongs to the client's
// state for the type and links it to the shared subscription, so that a change
// finds its clients. The zero Watcher with Client set watches nothing.
type Watcher struct {
	// Client is what [Table.Watchers] gives back. Fixed before first use.
	Client Client

	// Guarded by the table's mu.
	sub        *Subscription
	prev, next *Watcher
}

// Client is the owner of a Watcher: a downstream stream.
type Client any

func (s *Subscription) link(w *Watcher) {
	w.sub, w.prev, w.next = s, nil, s.watchers
	if s.watchers != nil {
		s.watchers.prev = w
	}
	s.watchers = w
	s.count++
}

func (s *Subscription) unlink(w *Watcher) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		s.watchers = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.sub, w.prev, w.next = nil, nil, nil
	s.count--
}

// Edit is a change of what a client wants.
type Edit struct {
	Add, Remove []string // Add is applied first (B23)
	// AddWildcard and RemoveWildcard join and leave "*".
	AddWildcard, RemoveWildcard bool
}

// Edited says what an Edit did.
type Edited struct {
	// Added are the names that the client did not want before.
	Added []string
	// Removed are the names that it wanted before.
	Removed []string
	// Wildcard says that "*" was joined.
	Wildcard bool
}

// Replace makes w want exactly names, and the wildcard if so said: the SotW
// form of a subscription (B17). Restating what w wants already costs no more
// than hashing the names.
func (t *Table) Replace(w *Watcher, wildcard bool, names []string) Edited {
	key := subKey{wildcard: wildcard}
	for _, n := range names {
		key.add(&t.seeds, n)
	}
	t.mu.RLock()
	same := w.sub != nil && w.sub.key == key
	t.mu.RUnlock()
	if same {
		return Edited{}
	}
	t.mu.Lock()
	e := Edit{Add: names, AddWildcard: wildcard, RemoveWildcard: !wildcard}
	if w.sub != nil {
		want := make(map[string]struct{}, len(names))
		for _, n := range names {
			want[n] = struct{}{}
		}
		for n := range w.sub.names {
			if _, ok := want[n]; !ok {
				e.Remove = append(e.Remove, n)
			}
		}
	}
	done := t.editLocked(w, e)
	t.unlockAndSignal()
	return done
}

// Edit changes what w wants by a difference: the delta form of a subscription.
func (t *Table) Edit(w *Watcher, e Edit) Edited {
	t.mu.Lock()
	done := t.editLocked(w, e)
	t.unlockAndSignal()
	return done
}

// Leave ends w's interest in the table.
func (t *Table) Leave(w *Watcher) {
	t.mu.Lock()
	if s := w.sub; s != nil {
		s.unlink(w)
		t.dropIfUnusedLocked(s)
	}
	t.unlockAndSignal()
}

// unlockAndSignal unlocks t.mu and tells the feed where it has to ask for more
// or less.
func (t *Table) unlockAndSignal() {
	news := t.hasNewsLocked()
	t.mu.Unlock()
	if news {
		t.group.signalDemand()
	}
}

func (t *Table) editLocked(w *Watcher, e Edit) (done Edited) {
	old := w.sub
	key := subKey{}
	var has map[string]struct{}
	if old != nil {
		key, has = old.key, old.names
	}
	final := make(map[string]bool, len(e.Add)+len(e.Remove)) // name → wanted, for names that change
	for _, n := range e.Add {
		if _, ok := has[n]; !ok {
			final[n] = true
		}
	}
	for _, n := range e.Remove {
		if _, ok := has[n]; ok {
			final[n] = false
		} else {
			delete(final, n)
		}
	}
	for n, wanted := range final {
		if wanted {
			key.add(&t.seeds, n)
			done.Added = append(done.Added, n)
		} else {
			key.drop(&t.seeds, n)
			done.Removed = append(done.Removed, n)
		}
	}
	wild := (key.wildcard || e.AddWildcard) && !e.RemoveWildcard
	done.Wildcard = wild && !key.wildcard
	key.wildcard = wild
	if old != nil && key == old.key {
		return done
	}

	next := t.subs[key]
	switch {
	case next != nil:
	case old != nil && old.count == 1:
		t.reshapeLocked(old, key, done)
		return done
	default:
		next = t.newSubscriptionLocked(key, has, done)
	}
	if old != nil {
		old.unlink(w)
	}
	next.link(w)
	if old != nil {
		t.dropIfUnusedLocked(old)
	}
	return done
}

// reshapeLocked changes s in place: its only client changed its mind. Copying
// a large set for each name that a client adds would be quadratic.
// It must be called with t.mu held.
func (t *Table) reshapeLocked(s *Subscription, key subKey, done Edited) {
	delete(t.subs, s.key)
	wasWild := s.key.wildcard
	for _, n := range done.Removed {
		delete(s.names, n)
		t.forgetLocked(s, n)
	}
	for _, n := range done.Added {
		s.names[n] = struct{}{}
		t.wantLocked(s, n)
	}
	if key.wildcard && !wasWild {
		t.wantWildcardLocked(s)
	} else if !key.wildcard && wasWild {
		t.forgetWildcardLocked(s)
	}
	s.key, s.id, s.gen = key, t.nextID(), t.gen
	if wasWild || key.wildcard || len(t.aliases) > 0 {
		t.recountLocked(s)
	} else {
		t.adjustLocked(s, done)
	}
	t.subs[key] = s
}

// adjustLocked is recountLocked for a few changed names. It must be called
// with t.mu held, on a table without aliases.
func (t *Table) adjustLocked(s *Subscription, done Edited) {
	for _, n := range done.Removed {
		if e := t.entries[n]; e != nil && e.res != nil {
			s.live--
			s.digest = s.digest.Sub(e.res.Member())
		}
	}
	for _, n := range done.Added {
		if e := t.entries[n]; e != nil && e.res != nil {
			s.live++
			s.digest = s.digest.Add(e.res.Member())
		}
	}
}

// newSubscriptionLocked must be called with t.mu held.
func (t *Table) newSubscriptionLocked(key subKey, base map[string]struct{}, done Edited) *Subscription {
	s := &Subscription{table: t, key: key, id: t.nextID(), gen: t.gen, names: maps.Clone(base)}
	if s.names == nil {
		s.names = make(map[string]struct{}, len(done.Added))
	}
	for _, n := range done.Removed {
		delete(s.names, n)
	}
	for _, n := range done.Added {
		s.names[n] = struct{}{}
	}
	for n := range s.names {
		t.wantLocked(s, n)
	}
	if key.wildcard {
		t.wantWildcardLocked(s)
	}
	t.recountLocked(s)
	t.subs[key] = s
	return s
}

// dropIfUnusedLocked must be called with t.mu held.
func (t *Table) dropIfUnusedLocked(s *Subscription) {
	if s.count > 0 {
		return
	}
	delete(t.subs, s.key)
	delete(t.waiting, s)
	for n := range s.names {
		t.forgetLocked(s, n)
	}
	if s.key.wildcard {
		t.forgetWildcardLocked(s)
	}
}

// recountLocked computes what s sees by name. It must be called with t.mu held.
func (t *Table) recountLocked(s *Subscription) {
	s.live, s.digest = 0, resource.Digest{}
	if s.key.wildcard {
		return // the whole table: see Table.digest
	}
	seen := make(map[*entry]struct{})
	for n := range s.names {
		e := t.lookupLocked(n)
		if e == nil || e.res == nil {
			continue
		}
		if _, twice := seen[e]; !twice {
			seen[e] = struct{}{}
			s.live++
			s.digest = s.digest.Add(e.res.Member())
		}
	}
}

// seesLocked reports whether s covers e, by wildcard, name or alias (B38).
func (s *Subscription) seesLocked(e *entry) bool {
	return s.key.wildcard || s.namesLocked(e)
}

// namesLocked reports whether s asks for e by name or alias.
func (s *Subscription) namesLocked(e *entry) bool {
	if _, ok := s.names[e.name]; ok {
		return true
	}
	if e.res != nil {
		for _, a := range e.res.Aliases {
			if _, ok := s.names[a]; ok {
				return true
			}
		}
	}
	return false
}

// Watchers appends the clients of s to buf.
func (s *Subscription) Watchers(buf []Client) []Client {
	s.table.mu.RLock()
	defer s.table.mu.RUnlock()
	for w := s.watchers; w != nil; w = w.next {
		buf = append(buf, w.Client)
	}
	return buf
}
