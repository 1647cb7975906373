package shard

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// View is the set of members at one time. It is immutable.
type View struct {
	members []Member // by name
	outage  bool     // some member cannot reach the control plane
}

// NewView makes a view of members. Each name counts once: the member that started last, and of
// several such members the one whose incarnation sorts last.
func NewView(members []Member) *View {
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), b.Since.Compare(a.Since), cmp.Compare(b.Incarnation, a.Incarnation))
	})
	sorted = slices.CompactFunc(sorted, func(a, b Member) bool { return a.Name == b.Name })
	return &View{members: sorted, outage: slices.ContainsFunc(sorted, func(m Member) bool { return m.Cut })}
}

// Members returns the members by name. The slice must not be changed.
func (v *View) Members() []Member { return v.members }

// ability is how well a member can serve a key that it owns, the best one last.
type ability uint8

const (
	draining ability = iota // it is about to end, and owns nothing
	cold                    // some member cannot reach the control plane, and this one has not since it started: it may have no content
	cut                     // it cannot reach the control plane, and has its earlier content
	able                    // as far as this node knows
)

// abilityOf returns how well a member can serve keys.
func (v *View) abilityOf(m *Member) ability {
	switch {
	case m.Draining:
		return draining
	case v.outage && m.Cold:
		return cold
	case m.Cut:
		return cut
	}
	return able
}

// Owner returns the member that owns a key: of the members with the best ability, the one with the
// highest hash. ok is false if no member can own it.
func (v *View) Owner(key string) (owner Member, ok bool) {
	best, highest := draining, uint64(0)
	for i := range v.members {
		m := &v.members[i]
		is := v.abilityOf(m)
		if is < best || is == draining {
			continue
		}
		score := weight(m.Name, key)
		if is > best || score >= highest {
			owner, ok, best, highest = *m, true, is, score
		}
	}
	return owner, ok
}

// weight is the hash of a member and a key. It is the same on every node and in every version of
// the program.
func weight(member, key string) uint64 {
	var h xxhash.Digest
	h.Reset()
	_, _ = h.WriteString(member)
	_, _ = h.Write([]byte{0}) // no name contains it
	_, _ = h.WriteString(key)
	return mix(h.Sum64())
}

// mix spreads values that are close together for short inputs (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
