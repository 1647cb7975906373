package cache

import "xdsrelay/relay/resource"

// entry is one name in a table: a resource, or the knowledge that the name is absent. The latter is
// a tombstone, which stays so that clients can be notified.
type entry struct {
	name string // canonical (G1)
	// The embedded [resourceCopy] is the copy that clients see; without a resource the name is
	// known to be absent. entry.second is the copy of the same resource from another stream. member
	// says that the entry belongs to the wildcard set, because the stream of the wildcard has a
	// copy (D11).
	resourceCopy
	second *resourceCopy
	member bool
	gen    uint64 // generation of the last change
	// named and wild are the generations of the last change that is visible by name, and by the
	// wildcard alone; 0 if there was none.
	named, wild uint64
	// born is the generation at which the present resource appeared, or of a tombstone, at which
	// the last one did. lived is that of the first resource; 0 if there never was one.
	born, lived uint64
	// gap is a removal that clients need not learn of, because they still have the resource.
	gap gap
	// changed is when gen was, in milliseconds of Unix time.
	changed int64
	// first is the generation of the first change of the same update: what arrived together is sent
	// together, as far as it fits (D13).
	first uint64
	// last is the resource that a tombstone replaced: SotW clients see it until their routes no
	// longer need it (E5).
	last *resource.Resource
	// former holds names that were aliases of the entry, as far as there is interest in them.
	former []string
	// urn is the extra state of a structured name; nil for all others.
	urn *structure
	// denied says that clients may keep what they have of a removed resource: its control plane
	// refuses to show it, and has not removed it (K8).
	denied bool

	changes, tombstones link[entry]
}

// link holds the neighbors of an element in a list of T.
type link[T any] struct{ prev, next *T }

// list is an intrusive doubly linked list, newest first. at returns the link of an element that
// this list uses.
type list[T any] struct {
	newest, oldest *T
	len            int
	at             func(*T) *link[T]
}

func changesLink(e *entry) *link[entry]   { return &e.changes }
func tombstoneLink(e *entry) *link[entry] { return &e.tombstones }

func (l *list[T]) push(e *T) {
	*l.at(e) = link[T]{next: l.newest}
	if l.newest != nil {
		l.at(l.newest).prev = e
	} else {
		l.oldest = e
	}
	l.newest = e
	l.len++
}

func (l *list[T]) remove(e *T) {
	k := l.at(e)
	if k.prev != nil {
		l.at(k.prev).next = k.next
	} else {
		l.newest = k.next
	}
	if k.next != nil {
		l.at(k.next).prev = k.prev
	} else {
		l.oldest = k.prev
	}
	*k = link[T]{}
	l.len--
}
