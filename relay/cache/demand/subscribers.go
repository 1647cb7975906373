package demand

import "iter"

// Subscribers is a set of subscriptions. Most names have one, or none: such a set allocates nothing,
// whereas a map takes more memory than everything else that is kept for a name.
type Subscribers[S comparable] struct {
	one  S              // the only one; the zero value while there is a map
	more map[S]struct{} // nil until there are two
}

// Len is the number of subscriptions.
func (s *Subscribers[S]) Len() int {
	if s.single() {
		return 1
	}
	return len(s.more)
}

func (s *Subscribers[S]) single() bool {
	var none S
	return s.one != none
}

// Has reports whether sub, which is not the zero value, is in the set.
func (s *Subscribers[S]) Has(sub S) bool {
	_, ok := s.more[sub]
	return ok || sub == s.one && s.single()
}

func (s *Subscribers[S]) add(sub S) {
	var none S
	switch {
	case s.more != nil:
		s.more[sub] = struct{}{}
	case s.one == none || s.one == sub:
		s.one = sub
	default:
		s.more, s.one = map[S]struct{}{s.one: {}, sub: {}}, none
	}
}

func (s *Subscribers[S]) remove(sub S) {
	if s.one == sub {
		var none S
		s.one = none
	}
	if delete(s.more, sub); len(s.more) == 0 {
		s.more = nil // maps do not shrink
	}
}

// All yields each subscription once. The set must not be changed meanwhile.
func (s *Subscribers[S]) All() iter.Seq[S] {
	return func(yield func(S) bool) {
		if s.single() {
			yield(s.one)
			return
		}
		for sub := range s.more {
			if !yield(sub) {
				return
			}
		}
	}
}

// With returns the union of both sets, which it does not change.
func (s *Subscribers[S]) With(o *Subscribers[S]) Subscribers[S] {
	switch {
	case o.Len() == 0:
		return *s
	case s.Len() == 0:
		return *o
	}
	union := Subscribers[S]{more: make(map[S]struct{}, s.Len()+o.Len())}
	for _, set := range []*Subscribers[S]{s, o} {
		for sub := range set.All() {
			union.more[sub] = struct{}{}
		}
	}
	return union
}
