package cache

import "iter"

// subscribers is a set of subscriptions. Most names have one, or none: such a set allocates
// nothing, whereas a map takes more memory than everything else that is kept for a name.
type subscribers struct {
	one  *Subscription              // the only one; nil while there is a map
	more map[*Subscription]struct{} // nil until there are two
}

func (s *subscribers) len() int {
	if s.one != nil {
		return 1
	}
	return len(s.more)
}

func (s *subscribers) has(sub *Subscription) bool {
	_, ok := s.more[sub]
	return ok || sub == s.one && sub != nil
}

func (s *subscribers) add(sub *Subscription) {
	switch {
	case s.more != nil:
		s.more[sub] = struct{}{}
	case s.one == nil || s.one == sub:
		s.one = sub
	default:
		s.more, s.one = map[*Subscription]struct{}{s.one: {}, sub: {}}, nil
	}
}

func (s *subscribers) remove(sub *Subscription) {
	if s.one == sub {
		s.one = nil
	}
	if delete(s.more, sub); len(s.more) == 0 {
		s.more = nil // maps do not shrink
	}
}

// all yields each subscription once. The set must not be changed meanwhile.
func (s *subscribers) all() iter.Seq[*Subscription] {
	return func(yield func(*Subscription) bool) {
		if s.one != nil {
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

// with returns the union of both sets, which it does not change.
func (s *subscribers) with(o *subscribers) subscribers {
	switch {
	case o.len() == 0:
		return *s
	case s.len() == 0:
		return *o
	}
	union := subscribers{more: make(map[*Subscription]struct{}, s.len()+o.len())}
	for _, set := range []*subscribers{s, o} {
		for sub := range set.all() {
			union.more[sub] = struct{}{}
		}
	}
	return union
}
