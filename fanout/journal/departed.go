package journal

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"sync"
	"time"
)

// Identity is a client as the node knows it. ID and Key are claims, unless authorization binds them.
type Identity struct {
	// Owner is the account that the client's limits are charged to: its proven identity, or else its
	// address.
	Owner   string
	ID, Key string
}

// Left is the journal of a client whose streams have ended.
type Left struct {
	Identity
	At     time.Time // the end of its last stream
	Events []Event
}

// KeepFor is how long the events of a client are kept after its last stream has ended.
const KeepFor = time.Hour

// DepartedBytes bounds what a node keeps of clients that have left.
const DepartedBytes = 8 << 20

// sweepPause is the least time between two looks for journals that are too old.
const sweepPause = KeepFor / 6

// overhead is about what an entry costs besides its texts and records, in bytes.
const overhead = 200

// Departed keeps the journals of streams that have ended, within a number of bytes. When they
// exceed it, the owner with the most bytes loses its oldest: a client with many names, whose owner is
// one account, cannot push out what owners with less have. All methods are safe for concurrent use.
type Departed struct {
	most, bound int // of one journal and of all, in bytes; fixed

	mu sync.Mutex
	// Guarded by mu.
	entries map[Identity]*entry
	owners  map[string]*owner
	ranked  ranking // the owner with the most bytes first
	bytes   int
	swept   time.Time
}

type entry struct {
	Identity
	at           time.Time
	journal      Journal
	older, newer *entry // of the owner
}

// owner is an account with its entries, by the time of their ends.
type owner struct {
	name           string
	oldest, newest *entry
	bytes          int
	rank           int // in the heap
}

func (e *entry) size() int {
	return overhead + len(e.Owner) + len(e.ID) + len(e.Key) + e.journal.Size()
}

// NewDeparted keeps journals of at most so many bytes each.
func NewDeparted(most int) *Departed {
	return &Departed{most: most, bound: DepartedBytes, entries: make(map[Identity]*entry), owners: make(map[string]*owner)}
}

// Add keeps the journal of a stream that has ended; the caller must not use it any more. With those
// of other streams of the client it is one journal.
func (d *Departed) Add(who Identity, j Journal, now time.Time) {
	if j.Empty() || d.most <= 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.entries[who]; e != nil {
		d.removeLocked(e)
		j = merge(e.journal, j, d.most)
	}
	j.b = slices.Clip(append(make([]byte, 0, len(j.b)), j.b...))
	// A copy of the names: those of the stream are parts of its Node.
	who = Identity{strings.Clone(who.Owner), strings.Clone(who.ID), strings.Clone(who.Key)}
	d.insertLocked(&entry{Identity: who, at: now, journal: j})
	for d.bytes > d.bound {
		d.removeLocked(d.ranked[0].oldest)
	}
	d.sweepLocked(now)
}

// sweepLocked drops what is too old. It looks once in sweepPause.
func (d *Departed) sweepLocked(now time.Time) {
	if now.Sub(d.swept) < sweepPause {
		return
	}
	d.swept = now
	for _, e := range d.entries {
		if now.Sub(e.at) > KeepFor {
			d.removeLocked(e)
		}
	}
}

// Take returns the journal of a client that is back, and keeps it no longer.
func (d *Departed) Take(who Identity, now time.Time) (j Journal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.entries[who]
	if e == nil {
		return j
	}
	d.removeLocked(e)
	if now.Sub(e.at) > KeepFor {
		return j
	}
	return e.journal
}

// Find returns the journals of clients with a node id, in the order of their keys and owners.
func (d *Departed) Find(id string, now time.Time) (all []Left) {
	for _, e := range d.copies(id, now) {
		all = append(all, Left{e.Identity, e.at, e.journal.Events()})
	}
	slices.SortFunc(all, func(a, b Left) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Owner, b.Owner)) })
	return all
}

// copies returns copies of the entries with a node id: they are decoded without the lock, for which
// streams that end wait.
func (d *Departed) copies(id string, now time.Time) (all []entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for who, e := range d.entries {
		if who.ID == id && now.Sub(e.at) <= KeepFor {
			all = append(all, entry{Identity: who, at: e.at, journal: Journal{slices.Clone(e.journal.b)}})
		}
	}
	return all
}

// Clear drops everything.
func (d *Departed) Clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries, d.owners, d.ranked, d.bytes = make(map[Identity]*entry), make(map[string]*owner), nil, 0
}

// Size returns the number of clients and roughly the memory, in bytes.
func (d *Departed) Size() (clients, bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.entries), d.bytes
}

func (d *Departed) insertLocked(e *entry) {
	o := d.owners[e.Owner]
	if o == nil {
		o = &owner{name: e.Owner}
		d.owners[o.name] = o
		heap.Push(&d.ranked, o)
	}
	if e.older = o.newest; e.older != nil {
		e.older.newer = e
	} else {
		o.oldest = e
	}
	o.newest = e
	d.entries[e.Identity] = e
	d.countLocked(o, e.size())
}

func (d *Departed) removeLocked(e *entry) {
	o := d.owners[e.Owner]
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		o.oldest = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		o.newest = e.older
	}
	e.older, e.newer = nil, nil
	delete(d.entries, e.Identity)
	d.countLocked(o, -e.size())
	if o.oldest == nil {
		heap.Remove(&d.ranked, o.rank)
		delete(d.owners, o.name)
	}
}

func (d *Departed) countLocked(o *owner, size int) {
	o.bytes += size
	d.bytes += size
	heap.Fix(&d.ranked, o.rank)
}

// ranking is a heap of owners, the one with the most bytes first.
type ranking []*owner

func (r ranking) Len() int           { return len(r) }
func (r ranking) Less(i, j int) bool { return r[i].bytes > r[j].bytes }
func (r ranking) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].rank, r[j].rank = i, j
}

// Push implements [heap.Interface].
func (r *ranking) Push(x any) {
	o, _ := x.(*owner)
	o.rank = len(*r)
	*r = append(*r, o)
}

// Pop implements [heap.Interface].
func (r *ranking) Pop() any {
	old := *r
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*r = old[:len(old)-1]
	return last
}

// merge returns the records of two journals by time, the newest that fit into most bytes.
func merge(a, b Journal, most int) (j Journal) {
	next := func(from *Journal) []byte {
		rec := from.b[:from.b[atLength]]
		from.b = from.b[len(rec):]
		return rec
	}
	for !a.Empty() || !b.Empty() {
		from := &a
		if a.Empty() || !b.Empty() && readMillis(b.b[atTime:]) < readMillis(a.b[atTime:]) {
			from = &b
		}
		j.add(slices.Clone(next(from)), most)
	}
	return j
}
