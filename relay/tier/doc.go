// Package tier makes several nodes one tier. For each aggregation key one node is the owner: it has
// the key's upstream streams to the control plane. The other nodes that have clients of the key are
// followers: each is a delta client on the owner's peer port and serves its own clients from what
// it receives.
//
// A keeper per upstream stream decides where its key comes from. It decides again whenever the
// members change, the owner becomes reachable or unreachable, or other nodes ask for the key. A
// change of source drops nothing: the feed of the key stays the same, so clients are sent only
// what differs.
//
// A node never forwards the request of another node to a third one. A node that is asked for a key
// that it does not own asks the control plane (one hop). So nodes that disagree about the members
// for a moment cost streams to the control plane, and nothing else.
//
// A node that lacks content while the control plane does not answer asks the other nodes for what
// they hold, and serves that as unconfirmed.
//
// The files by topic:
//
//   - the tier, and what runs for each key: tier.go, places.go
//   - where a key comes from: keeper.go; what a node does for a key in a state: hooks.go; whether the
//     owner's content is current enough to follow: fresh.go, removed.go
//   - connections to other nodes, and whether they are there: peers.go, peer.go, alive.go
//   - questions between nodes: ask.go
//   - content that this node lacks: search.go asks for it, held.go answers
//   - the control plane out of reach: cut.go; a process that did not run for a while: pulse.go
//   - leaving the tier: handover.go
package tier
