package transition

// Set is a set of values of one part of a state, as bits: values below [MaxValues]. The zero value
// has all.
type Set[T ~uint8] uint8

// Only returns the set of some values.
func Only[T ~uint8](of ...T) (s Set[T]) {
	for _, v := range of {
		s |= 1 << v
	}
	return s
}

// Has reports whether a value is in the set.
func (s Set[T]) Has(v T) bool { return s == 0 || s&(1<<v) != 0 }

const (
	// MaxParts is how many parts a state has at most, and MaxValues how many values each of them has.
	MaxParts  = 4
	MaxValues = 8
)

// Same marks a part of the state that a transition keeps.
const Same = 0xff

// Parts are the values of the parts of a state, in the order of its machine. The rest is 0.
type Parts [MaxParts]uint8

// Row is a row of a table: in the states that match, the event leads to other parts.
type Row[E, O ~uint8] struct {
	On     E
	In     Parts // a [Set] for each part
	To     Parts // [Same]: unchanged
	Output O
}

// Matches reports whether the row matches a state with these parts.
func (r *Row[E, O]) Matches(p Parts) bool {
	for i, v := range p {
		if !Set[uint8](r.In[i]).Has(v) {
			return false
		}
	}
	return true
}

// next returns the parts after the transition.
func (r *Row[E, O]) next(p Parts) Parts {
	for i, to := range r.To {
		if to != Same {
			p[i] = to
		}
	}
	return p
}
