package robust

import "time"

// fault is something that fails, until it is healed.
type fault struct {
	name string
	area string // at most one fault of an area at a time
	tier bool   // there is no such thing without a tier
	one  bool   // it concerns one node, which the plan draws
	// bears tells whether clients must get all that the origin has while it lasts.
	bears func(tier bool) bool
	begin func(w *World, n *Node)
	heal  func(w *World, n *Node)
}

func always(bool) bool       { return true }
func never(bool) bool        { return false }
func inATier(tier bool) bool { return tier }
func nothing(*World, *Node)  {}

// faults are all that a plan is made of.
var faults = [...]fault{
	// Nodes.
	{"kill a node", "process", false, true, always, func(_ *World, n *Node) { n.Kill() }, func(_ *World, n *Node) { n.Start() }},
	{"kill and start a node", "process", false, true, always, func(_ *World, n *Node) { n.Kill(); n.Start() }, nothing},
	{"terminate a node", "process", false, true, always, func(_ *World, n *Node) { n.Terminate() }, func(_ *World, n *Node) { n.Start() }},
	{"pause a node", "process", false, true, never, func(_ *World, n *Node) { n.Pause() }, func(_ *World, n *Node) { n.Resume() }},
	{"kill and start all nodes", "process", false, false, always, func(w *World, _ *Node) {
		for _, n := range w.nodes {
			n.Kill()
		}
		for _, n := range w.nodes {
			n.Start()
		}
	}, nothing},

	// Redis.
	{"cut a node from Redis", "redis", true, true, always, func(_ *World, n *Node) { n.redis.cut() }, func(_ *World, n *Node) { n.redis.heal() }},
	{"slow Redis", "redis", true, false, always, onEach(func(n *Node) { n.redis.slow(time.Second) }), onEach(func(n *Node) { n.redis.heal() })},
	{"flush Redis", "redis", true, false, always, func(w *World, _ *Node) { w.redis.Flush() }, nothing},
	{"kill Redis", "redis", true, false, always, func(w *World, _ *Node) { w.redis.Kill() }, func(w *World, _ *Node) { w.redis.Start() }},
	{"pause Redis", "redis", true, false, always, func(w *World, _ *Node) { w.redis.Pause() }, func(w *World, _ *Node) { w.redis.Resume() }},
	{"read-only Redis", "redis", true, false, always, func(w *World, _ *Node) { w.redis.ReadOnly(true) }, func(w *World, _ *Node) { w.redis.ReadOnly(false) }},

	// Peers.
	{"cut a node from its peers", "peers", true, true, always, func(_ *World, n *Node) { n.peer.cut() }, func(_ *World, n *Node) { n.peer.heal() }},
	{"cut all peers", "peers", true, false, always, onEach(func(n *Node) { n.peer.cut() }), onEach(func(n *Node) { n.peer.heal() })},
	{"hang a node's peers", "peers", true, true, never, func(_ *World, n *Node) { n.peer.hang() }, func(_ *World, n *Node) { n.peer.heal() }},

	// The origin.
	{"cut a node from the origin", "origin", false, true, inATier, func(_ *World, n *Node) { n.origin.cut() }, func(_ *World, n *Node) { n.origin.heal() }},
	{"cut all from the origin", "origin", false, false, never, onEach(func(n *Node) { n.origin.cut() }), onEach(func(n *Node) { n.origin.heal() })},
	{"hang a node's origin", "origin", false, true, never, func(_ *World, n *Node) { n.origin.hang() }, func(_ *World, n *Node) { n.origin.heal() }},
	{"restart the origin", "origin", false, false, always, func(w *World, _ *Node) { w.origin.Stop(); w.startOrigin() }, nothing},
	{"restart the origin newer", "origin", false, false, never, func(w *World, _ *Node) { w.origin.Stop() }, func(w *World, _ *Node) { w.startOrigin() }},
	{"restart the origin older", "origin", false, false, never, func(w *World, _ *Node) { w.origin.Stop() }, func(w *World, _ *Node) { w.origin.Restore(w.past); w.startOrigin() }},
	{"restart the origin empty", "origin", false, false, never, func(w *World, _ *Node) { w.origin.Stop() }, func(w *World, _ *Node) { w.origin.Restore(nil); w.startOrigin() }},
}

func onEach(do func(*Node)) func(*World, *Node) {
	return func(w *World, _ *Node) {
		for _, n := range w.nodes {
			do(n)
		}
	}
}
