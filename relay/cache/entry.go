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

	changes, graves link
}

// link is an entry's place in one of the table's two lists.
type link struct{ prev, next *entry }

// list is an intrusive doubly linked list of entries, newest first. at says
// which of an entry's links it uses.
type list struct {
	newest, oldest *entry
	len            int
	at             func(*entry) *link
}

func changesLink(e *entry) *link { return &e.changes }
func gravesLink(e *entry) *link  { return &e.graves }

func (l *list) push(e *entry) {
	*l.at(e) = link{next: l.newest}
	if l.newest != nil {
		l.at(l.newest).prev = e
	} else {
		l.oldest = e
	}
	l.newest = e
	l.len++
}

func (l *list) remove(e *entry) {
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
	*k = link{}
	l.len--
}
