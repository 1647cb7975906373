package ops

import (
	"time"

	"xdsrelay/relay/series"
	"xdsrelay/shard"
	"xdsrelay/shard/store"
)

// NodeState is what a node reports about itself for the live page.
type NodeState struct {
	Node string `json:"node"`
	// NotReady is why it should get no clients; empty if it should.
	NotReady string `json:"not_ready,omitempty"`
	// Admin is the URL of its admin port, if the port can be reached from other machines.
	Admin    string   `json:"admin,omitempty"`
	Settings Settings `json:"settings"`
	Sums     Sums     `json:"sums"`
	Keys     KeySums  `json:"keys"`
	// Problems are what is wrong with files of directories, Unreachable what keeps
	// servers of control planes out of reach: a few of each.
	Problems    []string `json:"problems,omitempty"`
	Unreachable []string `json:"unreachable,omitempty"`
	// SeparateTypes are types for which a control plane seems to end streams; see
	// [OriginInfo].
	SeparateTypes []string `json:"separate_types,omitempty"`
	// Redis is the state of the tier's Redis for the node; nil if there is none. Unheard is when
	// the node last read the list of nodes, if that is a while ago, and CutSince the time since
	// which no server of the control plane is reachable.
	Redis    *store.State `json:"redis,omitempty"`
	Unheard  time.Time    `json:"membership_stale_since,omitzero"`
	CutSince time.Time    `json:"control_plane_lost_since,omitzero"`
	// LastGood is why the last known good state cannot be written, and since when.
	LastGood      string    `json:"last_good,omitempty"`
	LastGoodSince time.Time `json:"last_good_since,omitzero"`
	// Foreign are nodes of another tier that are in Redis under the prefix of this one, a few of
	// them.
	Foreign      []string  `json:"foreign_nodes,omitempty"`
	ForeignSince time.Time `json:"foreign_nodes_since,omitzero"`
	// Frozen are the orders of operators by which clients get no changes; nil if there are none.
	Frozen *FrozenKeys `json:"frozen,omitempty"`
	// Certificates are those that the node presents and that have expired or expire soon.
	Certificates []BadCertificate `json:"certificates,omitempty"`
	Progress     []Progress       `json:"progress"`
	// Totals and Propagation are ten seconds old at most.
	Totals      series.Totals `json:"totals"`
	Propagation series.Counts `json:"propagation"`
}

// BadCertificate is a certificate that a node presents and that has expired, is not valid yet, or
// expires soon.
type BadCertificate struct {
	// Field is the section of the configuration that names it.
	Field       string    `json:"field"`
	From        time.Time `json:"from"`
	Until       time.Time `json:"until"`
	Expired     bool      `json:"expired,omitempty"`
	NotYetValid bool      `json:"not_yet_valid,omitempty"`
}

// KeySums are the keys of a node in numbers.
type KeySums struct {
	// Owner, Follower, Fallback, ForPeers and Idle are the sources from which it gets them; see
	// [NodeKey].
	Owner    int `json:"owner"`
	Follower int `json:"follower"`
	Fallback int `json:"fallback"`
	ForPeers int `json:"for_peers"`
	Idle     int `json:"idle"`
	// Followed counts the keys that it follows by the node that it gets them from.
	Followed map[string]int `json:"followed,omitempty"`
	// Down are those without a stream that they should have, DownSince is since when
	// the first one is, and DownError why.
	Down      int       `json:"down"`
	DownSince time.Time `json:"down_since,omitzero"`
	DownError string    `json:"down_error,omitempty"`
	// Stale are those with something from an earlier life of the tier (K14), Held those
	// of which removals are held back (K16).
	Stale int `json:"stale"`
	Held  int `json:"held"`
	// Behind are those of which the tier has newer content, BehindKey is the one that lacks it for
	// the longest time, and BehindSince since when.
	Behind      int       `json:"behind,omitempty"`
	BehindKey   string    `json:"behind_key,omitempty"`
	BehindSince time.Time `json:"behind_since,omitzero"`
	// Empty are those with clients and without content that have no upstream stream.
	Empty int `json:"empty,omitempty"`
}

// Settings is the state of a node's configuration.
type Settings struct {
	// File is its path; empty for none.
	File string `json:"file,omitempty"`
	// Loaded is when the active configuration was read.
	Loaded time.Time `json:"loaded"`
	// Restart lists the fields that have changed since the node started and that need a restart.
	Restart []string `json:"restart,omitempty"`
	// Rejected is why the configuration that was read last is not active, and RejectedAt the time
	// since which; empty if it is.
	Rejected   string    `json:"rejected,omitempty"`
	RejectedAt time.Time `json:"rejected_at,omitzero"`
}

// The kinds of origins.
const (
	ControlPlane = "control plane"
	Directory    = "directory"
)

// OriginInfo describes where configuration comes from.
type OriginInfo struct {
	Name     string   `json:"name"`
	Kind     string   `json:"kind"`              // ControlPlane or Directory
	Where    []string `json:"where"`             // addresses, or the directory
	Variant  string   `json:"variant,omitempty"` // of a control plane
	Problems []string `json:"problems"`          // what is wrong with files of a directory, or keeps servers out of reach
	// SeparateTypes are types to which keys subscribe on a separate stream, since the control plane
	// ended one with them: a few of them, with their keys.
	SeparateTypes []string `json:"separate_types,omitempty"`
	// Authorities and Types are what it serves beyond the rest, which is the first
	// one's; SeparateNames the types whose names have a stream of their own.
	Authorities   []string `json:"authorities,omitempty"`
	Types         []string `json:"types,omitempty"`
	SeparateNames []string `json:"separate_names,omitempty"`
}

// States of nodes. An isolated node serves clients but has left the tier; one that disappeared left
// it without draining.
const (
	NodeOK             = "ok"
	NodeDraining       = "draining"
	NodeNoControlPlane = "no_control_plane"
	NodeNotReady       = "not_ready"
	NodeSilent         = "silent"
	NodeIsolated       = "isolated"
	NodeDisappeared    = "disappeared"
)

func memberState(m shard.Member) string {
	switch {
	case m.Draining:
		return NodeDraining
	case m.Cut:
		return NodeNoControlPlane
	}
	return NodeOK
}
