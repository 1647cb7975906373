// Package shard decides which node of a tier owns which key. The owner has the stream of the key to
// the control plane; the other nodes follow it. The owner is found by rendezvous hashing over the
// present members.
//
// Ownership saves streams to the control plane; correctness does not depend on it. If two nodes
// both own a key, both have a stream for a while, and their clients receive the same configuration.
//
// # Members and views
//
// [Members] finds the nodes of a tier. There are three implementations: [Solo] for a single node,
// [Static] for a list of nodes, and shard/lease for leases in Redis. Each keeps a [Current] up to
// date, whose [View] is the set of members at one time. [View.Owner] returns the owner of a key.
//
// # Files and packages
//
//	members          member.go, members.go (the interface), solo.go, static.go
//	views            view.go, current.go
//	shard/lease      members with leases in Redis
//	shard/head       tier heads: the newest generation and digest of each key and type, in Redis
//	shard/lastgood   last known good state, in Redis or a directory
//	shard/store      the connection to Redis
//	shard/redistest  Redis servers for tests
package shard

import (
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Member is a node of the tier as other nodes see it.
type Member struct {
	// Name is the node's own (node.name), and its input to the hash: a node that returns owns the
	// same keys again.
	Name string `json:"name"`
	// Peer is the address for other nodes, as host:port.
	Peer string `json:"peer"`
	// Incarnation is random for each start of the program. It distinguishes a node that restarted
	// from its earlier run, and two nodes with the same name.
	Incarnation string `json:"incarnation,omitempty"`
	// Version is the version of the program, Since is when it started.
	Version string    `json:"version,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Stamps is true if the program stamps the tier heads that it writes (see package head).
	// Earlier versions do not.
	Stamps bool `json:"stamps,omitempty"`
	Status
}

// Status is the part of a member that changes.
type Status struct {
	// Clients is its number of client streams.
	Clients int `json:"clients"`
	// Draining is true if the node is about to end. It owns no keys any more.
	Draining bool `json:"draining,omitempty"`
	// Cut is true if the node cannot reach the control plane. Other nodes own the keys as long as
	// one can reach it.
	Cut bool `json:"cut,omitempty"`
	// Cold is true if the node has not reached the control plane since it started, so that it
	// may have no content: while some member cannot reach it, keys stay with nodes that have.
	Cold bool `json:"cold,omitempty"`
	// Sharded is true if the node also subscribes to hints about tier heads on the sharded channels
	// of a Redis cluster. Earlier versions do not.
	Sharded bool `json:"sharded,omitempty"`
	// Rollouts is true if the node carries out rollouts. Earlier versions do not.
	Rollouts bool `json:"rollouts,omitempty"`
}

// IsAddress reports whether an address is host:port: gRPC would also accept the path of a socket or
// another resolver scheme, and anyone may have written it.
func IsAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" || strings.ContainsFunc(host, func(r rune) bool { return !unicode.IsPrint(r) || r == '/' }) {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
