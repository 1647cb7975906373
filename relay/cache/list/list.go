// Package list is a doubly linked list whose elements have their own links, so that an element is
// removed in constant time and takes no memory besides itself. It takes no lock.
package list

// Link holds the neighbors of an element in a list of T. The zero value is that of an element in no
// list.
type Link[T any] struct{ Newer, Older *T }

// List has its elements from the newest to the oldest. One goroutine changes it at a time, while no
// other one reads it.
type List[T any] struct {
	newest, oldest *T
	len            int
	at             func(*T) *Link[T]
}

// New makes an empty list. at returns the link of an element that this list uses.
func New[T any](at func(*T) *Link[T]) List[T] { return List[T]{at: at} }

// Newest returns the element that was added last; nil if there is none.
func (l *List[T]) Newest() *T { return l.newest }

// Oldest returns the element that was added first; nil if there is none.
func (l *List[T]) Oldest() *T { return l.oldest }

// Len returns the number of elements.
func (l *List[T]) Len() int { return l.len }

// Push adds an element, which must not be in the list, as the newest.
func (l *List[T]) Push(e *T) {
	*l.at(e) = Link[T]{Older: l.newest}
	if l.newest != nil {
		l.at(l.newest).Newer = e
	} else {
		l.oldest = e
	}
	l.newest = e
	l.len++
}

// Remove removes an element, which must be in the list.
func (l *List[T]) Remove(e *T) {
	k := l.at(e)
	if k.Newer != nil {
		l.at(k.Newer).Older = k.Older
	} else {
		l.newest = k.Older
	}
	if k.Older != nil {
		l.at(k.Older).Newer = k.Newer
	} else {
		l.oldest = k.Newer
	}
	*k = Link[T]{}
	l.len--
}
