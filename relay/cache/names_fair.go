package cache

import (
	"cmp"
	"slices"

	"xdsrelay/relay/cache/notes"
	"xdsrelay/relay/resource"
)

// The bound on the names of a stream is shared by all clients of a key. A client that asks for very
// many names that do not exist must not exhaust it for the others: its newest names yield to those
// of a client that asks for less.

// reasonYield is the error for clients that ask for a name that has yielded.
const reasonYield = "the names of this key exceed upstream.max_names_size; this name was dropped in favor of clients with fewer names"

// yieldTries is how often room is made for an edit: other clients may use it meanwhile.
const yieldTries = 3

// yield makes room for an edit that was rejected. First it drops lingering names, then names of the
// subscription with the most names, if that has more than the client asks for. Of these it drops
// names without other subscribers and without a resource, the newest first, and at least half of
// them, so that the search does not repeat for each new name. It reports whether there may be
// enough room. A subscription may have hundreds of thousands of names, so they are examined and
// dropped in steps, between which other goroutines get the lock. t.mu must not be held.
func (t *Table) yield(over *NamesOver) bool {
	t.yielding.Lock()
	defer t.yielding.Unlock()
	t.dropLingering()
	largest, id, missing := t.largest(over)
	if missing <= 0 {
		return true // another client has made room
	}
	if largest == nil {
		return false
	}
	giving, total := t.giving(over.stream, largest)
	if total < missing {
		t.mu.Lock()
		if largest.id == id {
			largest.firm = id
		}
		t.mu.Unlock()
		return false
	}
	slices.SortFunc(giving, newestFirst)
	for left := max(missing, total/2); len(giving) > 0 && left > 0; {
		n := 0
		for ; n < min(len(giving), t.group.cache.step) && left > 0; n++ {
			left -= giving[n].size
		}
		t.mu.Lock()
		t.core.give(over.stream, giving[:n])
		t.unlockAndWake()
		giving = giving[n:]
	}
	return true
}

// largest returns the subscription whose names have to yield, with its id, nil for none; missing is
// how many bytes a stream lacks.
func (t *Table) largest(over *NamesOver) (s *Subscription, id uint64, missing int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if missing = t.core.askedSize(over.stream) + over.more - over.Bound; missing <= 0 {
		return nil, 0, missing
	}
	size := over.wants
	for _, one := range t.core.subs {
		if one.firm != one.id && one.key.size() > size {
			s, size = one, one.key.size()
		}
	}
	if s == nil {
		return nil, 0, missing
	}
	return s, s.id, missing
}

// given is a name that may yield.
type given struct {
	name string
	seq  uint64
	size int
}

func newestFirst(a, b given) int { return cmp.Compare(b.seq, a.seq) }

// giving returns the names of s that may yield, and their size.
func (t *Table) giving(stream int, s *Subscription) (all []given, total int) {
	for n := range inSteps(t, t.mu.reading(), &s.names) {
		if w := t.core.demand.Get(n); t.core.mayYield(stream, n, w) {
			all, total = append(all, given{n, w.Seq(), w.Size()}), total+w.Size()
		}
	}
	return all, total
}

// mayYield reports whether a stream need not ask for a name: it has one subscriber, and there
// is no resource of it.
func (t *core) mayYield(stream int, name string, w *interest) bool {
	if w == nil || w.Stream() != stream || w.Shed() || w.Subscribers().Len() != 1 {
		return false
	}
	e := t.store.Get(name)
	return e == nil || e.Res == nil
}

// give drops those of names that may still yield.
func (t *core) give(stream int, names []given) {
	for _, g := range names {
		n, w := g.name, t.demand.Get(g.name)
		if !t.mayYield(stream, n, w) {
			continue
		}
		t.demand.Shed(w, n, false)
		about := resource.NewError(w.Name(n), resource.CodeResourceExhausted, reasonYield)
		t.noteError(notes.NewProblem(about, stream, notes.Error), t.woken)
	}
}

// askAgain asks for those of names that were shed: another client asks for them now, and
// there is room.
func (t *core) askAgain(names []string) {
	if !t.demand.HasShed() {
		return
	}
	for _, n := range names {
		w := t.demand.Get(n)
		if w == nil || !w.Shed() {
			continue
		}
		t.notes.Forget(n)
		if t.demand.AskAgain(w, n, t.unheard(n)) {
			t.near(w.Stream())
		}
	}
}
