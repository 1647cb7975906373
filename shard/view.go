package shard

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// View is who is there at one time. It is not changed once made.
type View struct {
	members []Member // by name
}

// NewView makes a view of members, of which each name counts once: the one that
// started last, and of several such the one whose incarnation sorts last.
func NewView(members []Member) *View {
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), b.Since.Compare(a.Since), cmp.Compare(b.Incarnation, a.Incarnation))
	})
	return &View{members: slices.CompactFunc(sorted, func(a, b Member) bool { return a.Name == b.Name })}
}

// Members are those who are there, by name. The slice must not be changed.
func (v *View) Members() []Member { return v.members }

// Owner is the member that owns a key: of those that are not about to end, and
// among them of those that reach the origin where there are any, the one with the
// highest hash. false means that there is none.
func (v *View) Owner(key string) (owner Member, ok bool) {
	var best uint64
	better := func(m *Member) bool {
		score := weight(m.Name, key)
		switch {
		case m.Draining:
			return false
		case !ok, owner.Cut && !m.Cut:
			best = score
			return true
		case m.Cut && !owner.Cut, score < best:
			return false
		}
		best = score
		return true
	}
	for i := range v.members {
		if better(&v.members[i]) {
			owner, ok = v.members[i], true
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
