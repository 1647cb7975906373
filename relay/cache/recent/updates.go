package recent

// Remembered is how many updates a table remembers, and a [Mask] has bits for.
const Remembered = 16

// Update is an update that was applied. T is what a table traces it with.
type Update[T any] struct {
	Gen   uint64 // newest generation after the update
	At    int64  // in ns since 1970
	Trace T
}

// Updates are the last updates of a table. The zero value is that of a table without one.
type Updates[T any] struct {
	ring []Update[T]
	n    uint64 // updates so far; each has its number, the first is 1
}

// Add remembers an update, which gets the number that Next has returned.
func (s *Updates[T]) Add(one Update[T]) {
	s.n++
	if len(s.ring) < Remembered {
		s.ring = append(s.ring, one)
		return
	}
	s.ring[(s.n-1)%Remembered] = one
}

// Next is the number of the update that is being applied.
func (s *Updates[T]) Next() uint64 { return s.n + 1 }

// of returns the update with a number, which must still be remembered.
func (s *Updates[T]) of(number uint64) *Update[T] { return &s.ring[(number-1)%Remembered] }

// Newest returns the newest update and its number; nil if there was none.
func (s *Updates[T]) Newest() (u *Update[T], number uint64) {
	if s.n == 0 {
		return nil, 0
	}
	return s.of(s.n), s.n
}

// Span returns the generations of the update with a number: up to which the table was before it, or 0
// if that is not remembered, and up to which it was after. ok is false if the update is not remembered.
func (s *Updates[T]) Span(number uint64) (before, gen uint64, ok bool) {
	known := uint64(len(s.ring))
	if number == 0 || number > s.n || s.n-number >= known {
		return 0, 0, false
	}
	if s.n-number+1 < known {
		before = s.of(number - 1).Gen
	}
	return before, s.of(number).Gen, true
}

// Each yields the updates that a mask has and that end after generation from, up to to, the oldest
// first.
func (s *Updates[T]) Each(m *Mask, from, to uint64, yield func(*Update[T]) bool) {
	for number := s.n - min(s.n, Remembered) + 1; number <= s.n; number++ {
		if number > m.newest {
			return
		}
		if one := s.of(number); one.Gen > from && one.Gen <= to && m.Has(number) && !yield(one) {
			return
		}
	}
}

// Fresh is the mask of a subscription that no update has concerned yet.
func (s *Updates[T]) Fresh() Mask { return Mask{newest: s.n} }

// Mask are the updates that concern a subscription.
type Mask struct {
	newest uint64 // the number of the newest
	bits   uint16 // bit i for the one i before that
}

// Add records the update with a number, which is not older than the newest; repeating that is harmless.
func (m *Mask) Add(number uint64) { m.bits, m.newest = m.bits<<(number-m.newest)|1, number }

// HasNewest reports whether the update with a number is the newest that the mask has.
func (m *Mask) HasNewest(number uint64) bool { return m.newest == number }

// Has reports whether the mask has the update with a number. It is false for updates that are no longer
// remembered.
func (m *Mask) Has(number uint64) bool {
	return number <= m.newest && m.newest-number < Remembered && m.bits>>(m.newest-number)&1 != 0
}
