// Package shard says which node of a tier owns which key: the one that holds the
// key's stream to the origin. Nodes are found by rendezvous hashing over the
// members that are there.
//
// Ownership saves the origin streams; nothing depends on it. Two nodes that both
// take a key for theirs hold two streams for a while, and their clients see the
// same all the same.
package shard

import "time"

// Member is a node of the tier as the others see it.
type Member struct {
	// Name is the node's own (node.name), and its place in the hash: a node that
	// comes back gets its keys back.
	Name string `json:"name"`
	// Peer is where other nodes reach it, as host:port.
	Peer string `json:"peer"`
	// Incarnation is drawn at random when the program starts: it tells a node that
	// came back from the one that went, and two that go by one name.
	Incarnation string `json:"incarnation,omitempty"`
	// Version is the program's, Since when it started.
	Version string    `json:"version,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Stamps says that the program stamps the tier heads that it writes (see package head),
	// which earlier versions do not.
	Stamps bool `json:"stamps,omitempty"`
	Status
}

// Status is what a member says of itself that changes.
type Status struct {
	// Clients is how many client streams it has.
	Clients int `json:"clients"`
	// Draining says that it is about to end, and owns nothing any more.
	Draining bool `json:"draining,omitempty"`
	// Cut says that it cannot reach the origin. Keys go to those who can, as long as
	// there is one.
	Cut bool `json:"cut,omitempty"`
	// Cold says that it has not reached the origin since it started, so that it may hold
	// nothing: while others are cut off, keys stay with those that reached it once.
	Cold bool `json:"cold,omitempty"`
	// Sharded says that it is subscribed to hints about tier heads on the sharded channels of
	// a Redis cluster, too. Earlier versions are not.
	Sharded bool `json:"sharded,omitempty"`
}
