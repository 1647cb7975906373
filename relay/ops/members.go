package ops

import (
	"slices"
	"time"

	"xdsrelay/relay/terms"
	"xdsrelay/shard"
	"xdsrelay/shard/store"
)

// Members are the nodes of a tier as one of them knows them.
type Members struct {
	Self string `json:"self"`
	// Heard is when that was last known to be true.
	Heard   time.Time      `json:"last_seen"`
	Members []shard.Member `json:"members"`
	// Strays are nodes that answer although they are no members, as one does that cannot
	// reach Redis; see [Strays].
	Strays []shard.Member `json:"isolated,omitempty"`
	// Silent are members that did not answer when they were asked last, for whatever.
	Silent []Silent `json:"silent,omitempty"`
	// Missing are nodes that should be there and do not answer.
	Missing []Missing `json:"missing,omitempty"`
	// Differences are the nodes that differ from others in what all must have in common.
	Differences []terms.Difference `json:"differences,omitempty"`
	// Clocks are the nodes whose clocks differ from those of the others.
	Clocks []Skew `json:"clocks,omitempty"`
	// Redis is how the tier's Redis is, as far as the node knows; nil if there is none.
	Redis *store.State `json:"redis,omitempty"`
}

// Address is where other nodes reach one.
func (m Members) Address(node string) string {
	for _, one := range m.everybody() {
		if one.Name == node {
			return one.Peer
		}
	}
	for _, one := range m.Missing {
		if one.Name == node {
			return one.Peer
		}
	}
	return ""
}

// everybody are the members, with this node also where it is not among them, and the
// strays.
func (m Members) everybody() []shard.Member {
	all := slices.Concat(m.Members, m.Strays)
	if slices.ContainsFunc(all, func(one shard.Member) bool { return one.Name == m.Self }) {
		return all
	}
	return append([]shard.Member{{Name: m.Self}}, all...)
}

// absent are the nodes that are missing, except those that are shown as members.
func (m Members) absent() (all []Missing) {
	there := m.everybody()
	for _, gone := range m.Missing {
		if !slices.ContainsFunc(there, func(one shard.Member) bool { return one.Name == gone.Name }) {
			all = append(all, gone)
		}
	}
	return all
}

// Owner returns the node that should have the stream of a key to the control plane; empty if all
// nodes are draining.
func (m Members) Owner(key string) string {
	owner, _ := shard.NewView(m.Members).Owner(key)
	return owner.Name
}
