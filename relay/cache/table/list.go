package table

// link holds the neighbors of an element in a list of T.
type link[T any] struct{ prev, next *T }

// list is an intrusive doubly linked list, newest first. at returns the link of an element that
// this list uses.
type list[T any] struct {
	newest, oldest *T
	len            int
	at             func(*T) *link[T]
}

func changesLink(e *Entry) *link[Entry]   { return &e.changes }
func tombstoneLink(e *Entry) *link[Entry] { return &e.tombstones }
func heartbeatLink(e *Entry) *link[Entry] { return &e.TTLState.heartbeats }
func memberLink(e *Entry) *link[Entry]    { return &e.urn.place }

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
