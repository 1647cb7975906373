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
	NotReady string   `json:"not_ready,omitempty"`
	Settings Settings `json:"settings"`
	Sums     Sums     `json:"sums"`
	Keys     KeySums  `json:"keys"`
	// Problems are what is wrong with files of directories, Unreachable what keeps
	// servers of control planes out of reach: a few of each.
	Problems    []string `json:"problems,omitempty"`
	Unreachable []string `json:"unreachable,omitempty"`
	// Apart are types for which a control plane seems to end streams; see
	// [OriginInfo].
	Apart []string `json:"apart,omitempty"`
	// Redis is how the tier's Redis is for the node; nil if there is none. Unheard is when
	// the node last knew who is in the tier, where that is a while ago, and CutSince since
	// when no server of the control plane can be reached.
	Redis    *store.State `json:"redis,omitempty"`
	Unheard  time.Time    `json:"unheard,omitzero"`
	CutSince time.Time    `json:"cut_since,omitzero"`
	// LastGood is why the last known good state cannot be written, and since when.
	LastGood      string    `json:"last_good,omitempty"`
	LastGoodSince time.Time `json:"last_good_since,omitzero"`
	// Foreign are nodes that Redis has under the prefix of the tier and that are none of
	// its own, a few of them.
	Foreign      []string  `json:"foreign,omitempty"`
	ForeignSince time.Time `json:"foreign_since,omitzero"`
	// Certificates are those that the node shows and that are good no more, or not for long.
	Certificates []BadCertificate `json:"certificates,omitempty"`
	Progress     []Progress       `json:"progress"`
	// Totals and Took are ten seconds old at most.
	Totals series.Totals `json:"totals"`
	Took   series.Counts `json:"took"`
}

// BadCertificate is a certificate that a node shows and that is good no more, not yet, or
// not for long.
type BadCertificate struct {
	// Use is the section of the configuration that names it.
	Use   string    `json:"use"`
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Ended bool      `json:"ended,omitempty"`
	Early bool      `json:"early,omitempty"`
}

// KeySums are the keys of a node in numbers.
type KeySums struct {
	// Owner, Follower, Alone, ForPeers and Idle are from where it gets them; see
	// [NodeKey].
	Owner    int `json:"owner"`
	Follower int `json:"follower"`
	Alone    int `json:"alone"`
	ForPeers int `json:"for_peers"`
	Idle     int `json:"idle"`
	// Down are those without a stream that they should have, DownSince is since when
	// the first one is, and DownError why.
	Down      int       `json:"down"`
	DownSince time.Time `json:"down_since,omitzero"`
	DownError string    `json:"down_error,omitempty"`
	// Stale are those with something from an earlier life of the tier (K14), Held those
	// of which removals are held back (K16).
	Stale int `json:"stale"`
	Held  int `json:"held"`
	// Empty are those with clients and without any content, while no origin can be asked.
	Empty int `json:"empty,omitempty"`
}

// Settings is what became of a node's configuration.
type Settings struct {
	// File is where it stands; empty for none.
	File string `json:"file,omitempty"`
	// Read is when what is in force was read.
	Read time.Time `json:"read"`
	// Restart lists the fields that have changed since the node was started, and that
	// only a restart puts into force.
	Restart []string `json:"restart,omitempty"`
	// Refused says why what was read last is not in force, and RefusedAt since when;
	// empty where it is.
	Refused   string    `json:"refused,omitempty"`
	RefusedAt time.Time `json:"refused_at,omitzero"`
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
	// Apart are types that keys ask for on a stream of their own, since the control
	// plane ended one on which it was asked for them: a few of them, with their keys.
	Apart []string `json:"apart,omitempty"`
	// Authorities and Types are what it serves beyond the rest, which is the first
	// one's; SeparateNames the types whose names have a stream of their own.
	Authorities   []string `json:"authorities,omitempty"`
	Types         []string `json:"types,omitempty"`
	SeparateNames []string `json:"separate_names,omitempty"`
}

// States of nodes besides those of members: a node that does not answer, one that serves clients
// although it is no member, and one that disappeared.
const (
	NodeSilent = "silent"
	NodeApart  = "apart"
	NodeGone   = "gone"
)

func memberState(m shard.Member) string {
	switch {
	case m.Draining:
		return "draining"
	case m.Cut:
		return "no origin"
	}
	return "ok"
}
