package cache

import "xdsrelay/relay/resource"

// entry is one name in a table: a resource, or the knowledge that there is
// none (a tombstone, which stays so that clients can be told).
type entry struct {
	name string // canonical (G1)
	// hold is the copy that clients see; without a resource the name is known
	// to be absent. also is another leg's copy of the same resource, and member
	// says that it belongs to the wildcard set: that the leg of the wildcard
	// holds it (D11).
	hold
	also   *hold
	member bool
	gen    uint64 // generation of the last change
	// named and wild are the generations of the last change that somebody sees
	// who asks by name, and by the wildcard alone; 0 if there was none.
	named, wild uint64
	// born is the generation since which there is a resource, or of a tombstone,
	// since which there was the last one, and lived that of the first one; 0 if there
	// never was.
	born, lived uint64
	// gap is what clients need not learn of, as they have the resource all the same.
	gap gap
	// changed is when gen was, in milliseconds of Unix time.
	changed int64
	// first is the generation of the first change of the same update: what
	// came together is told together, as far as it fits (D13).
	first uint64
	// last is what a tombstone was: SotW clients are shown it until their
	// routes no longer need it (E5).
	last *resource.Resource
	// former are names that it was an alias for, as far as they are wanted.
	former []string
	// urn is what a structured name needs beyond this; nil for all others.
	urn *structure
	// denied says that the clients may keep what they have of a resource that
	// is gone: its origin refuses to show it, and has not removed it (K8).
	denied bool

	changes, graves link[entry]
}

// link is a place in a list of T.
type link[T any] struct{ prev, next *T }

// list is an intrusive doubly linked list, newest first. at says which link of
// an element it uses.
type list[T any] struct {
	newest, oldest *T
	len            int
	at             func(*T) *link[T]
}

func changesLink(e *entry) *link[entry] { return &e.changes }
func gravesLink(e *entry) *link[entry]  { return &e.graves }

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
