package cache

// neighbors are the elements before and after one in a list of T.
type neighbors[T any] struct{ prev, next *T }

// list is an intrusive doubly linked list, newest first. at returns the neighbors of an element
// in this list.
type list[T any] struct {
	newest, oldest *T
	len            int
	at             func(*T) *neighbors[T]
}

func (l *list[T]) push(e *T) {
	*l.at(e) = neighbors[T]{next: l.newest}
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
	*k = neighbors[T]{}
	l.len--
}
