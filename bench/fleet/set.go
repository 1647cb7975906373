package fleet

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// set is a set of resource numbers, immutable and shared. A nil set is empty.
type set struct {
	words []uint64
	n     int    // how many there are
	hash  uint64 // equal sets have equal ones
	all   bool   // there is everything in it, whatever the words say

	names [2][]byte // as fields of requests, once needed; guarded by the view's mu
}

// everything is the set of all numbers.
var everything = &set{all: true, hash: 1}

func newSet(words []uint64) *set {
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	if len(words) == 0 {
		return nil
	}
	s := &set{words: words}
	var d xxhash.Digest
	d.Reset()
	var b [8]byte
	for _, w := range words {
		s.n += bits.OnesCount64(w)
		binary.LittleEndian.PutUint64(b[:], w)
		_, _ = d.Write(b[:])
	}
	s.hash = d.Sum64()
	return s
}

func setBit(words []uint64, i int) []uint64 {
	for len(words) <= i/64 {
		words = append(words, 0)
	}
	words[i/64] |= 1 << (i % 64)
	return words
}

func (s *set) has(i int) bool {
	return s != nil && (s.all || i/64 < len(s.words) && s.words[i/64]>>(i%64)&1 != 0)
}

func (s *set) len() int {
	if s == nil {
		return 0
	}
	return s.n
}

// same reports whether two sets are equal.
func (s *set) same(o *set) bool {
	return s == o || s != nil && o != nil && s.hash == o.hash
}

func (s *set) each(f func(i int)) {
	if s == nil {
		return
	}
	for at, w := range s.words {
		for ; w != 0; w &= w - 1 {
			f(at*64 + bits.TrailingZeros64(w))
		}
	}
}

// union is everything that is in one of two sets.
func (s *set) union(o *set) *set {
	switch {
	case o == nil || s == o:
		return s
	case s == nil:
		return o
	case s.all || o.all:
		return everything
	}
	if len(s.words) < len(o.words) {
		s, o = o, s
	}
	words := append([]uint64(nil), s.words...)
	for i, w := range o.words {
		words[i] |= w
	}
	return newSet(words)
}

// minus is what is in s and not in o.
func (s *set) minus(o *set) *set {
	if s == nil || o == nil || s.all {
		return s
	}
	if o.all || s == o {
		return nil
	}
	words := append([]uint64(nil), s.words...)
	for i := range min(len(words), len(o.words)) {
		words[i] &^= o.words[i]
	}
	return newSet(words)
}

// within reports whether all of s is in o.
func (s *set) within(o *set) bool {
	if s.same(o) || s == nil || o != nil && o.all {
		return true
	}
	if o == nil || s.all || s.n > o.n {
		return false
	}
	for i, w := range s.words {
		var there uint64
		if i < len(o.words) {
			there = o.words[i]
		}
		if w&^there != 0 {
			return false
		}
	}
	return true
}

// even is every second member of s.
func (s *set) even() *set {
	var words []uint64
	n := 0
	s.each(func(i int) {
		if n%2 == 0 {
			words = setBit(words, i)
		}
		n++
	})
	return newSet(words)
}
