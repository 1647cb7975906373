package shard

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// View is who is there at one time. It is not changed once made.
type View struct {
	members []Member // by name
	outage  bool     // some member cannot reach the origin
}

// NewView makes a view of members, of which each name counts once: the one that
// started last, and of several such the one whose incarnation sorts last.
func NewView(members []Member) *View {
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), b.Since.Compare(a.Since), cmp.Compare(b.Incarnation, a.Incarnation))
	})
	sorted = slices.CompactFunc(sorted, func(a, b Member) bool { return a.Name == b.Name })
	return &View{members: sorted, outage: slices.ContainsFunc(sorted, func(m Member) bool { return m.Cut })}
}

// Members are those who are there, by name. The slice must not be changed.
func (v *View) Members() []Member { return v.members }

// standing is how well a member can serve a key that it owns, the best one last.
type standing uint8

const (
	leaving standing = iota // it is about to end, and owns nothing
	cold                    // others are cut off, and it has not reached the origin either: it may hold nothing
	cut                     // it cannot reach the origin, and holds what it had before
	able                    // as far as anybody knows
)

// standingOf returns how well a member can serve keys.
func (v *View) standingOf(m *Member) standing {
	switch {
	case m.Draining:
		return leaving
	case v.outage && m.Cold:
		return cold
	case m.Cut:
		return cut
	}
	return able
}

// Owner is the member that owns a key: of those that can serve it best (see standing), the
// one with the highest hash. false means that there is none.
func (v *View) Owner(key string) (owner Member, ok bool) {
	best, highest := leaving, uint64(0)
	for i := range v.members {
		m := &v.members[i]
		is := v.standingOf(m)
		if is < best || is == leaving {
			continue
		}
		score := weight(m.Name, key)
		if is > best || score >= highest {
			owner, ok, best, highest = *m, true, is, score
		}
	}
	return owner, ok
}

// weight is the hash of a member and a key. It is the same on every node and in
// every version of the program.
func weight(member, key string) uint64 {
	var h xxhash.Digest
	h.Reset()
	_, _ = h.WriteString(member)
	_, _ = h.Write([]byte{0}) // no name holds it
	_, _ = h.WriteString(key)
	return mix(h.Sum64())
}

// mix spreads what short inputs leave close together (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
