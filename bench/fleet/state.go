package fleet

import "github.com/cespare/xxhash/v2"

// state is what a client holds of a type. It is immutable, and shared by all
// clients of the key that hold the same.
type state struct {
	held     []held // by number
	has      *set   // those that are there
	newest   uint64 // the greatest revision that was ever there
	version  string // of the last response; SotW only
	answered bool   // there was a response
	sum      uint64 // of what is held

	initial []byte // initial_resource_versions, once needed; guarded by the view's mu
}

// held is one resource. One that is not there is zero.
type held struct {
	version  string // delta only
	revision uint64
}

// nothing is the state of a client that was told nothing.
var nothing = &state{}

func (s *state) get(i int) held {
	if i < len(s.held) {
		return s.held[i]
	}
	return held{}
}

// atLeast counts the resources of a revision or later.
func (s *state) atLeast(revision uint64) (n int) {
	s.has.each(func(i int) {
		if s.held[i].revision >= revision {
			n++
		}
	})
	return n
}

// sumOf is what a resource adds to the sum of a state.
func sumOf(i int, h held) uint64 {
	return mix(mix(uint64(i)+1, h.revision), xxhash.Sum64String(h.version))
}

// without is the state of a client that has forgotten some of it.
func (s *state) without(gone *set) *state {
	if s.has.minus(gone).same(s.has) {
		return s
	}
	to := &state{
		held: append([]held(nil), s.held...), has: s.has.minus(gone),
		newest: s.newest, version: s.version, answered: s.answered, sum: s.sum,
	}
	gone.each(func(i int) {
		if s.has.has(i) {
			to.sum -= sumOf(i, s.held[i])
			to.held[i] = held{}
		}
	})
	return to
}
