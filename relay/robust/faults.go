package robust

import (
	"time"

	"xdsrelay/relay/robust/origin"
)

// fault is something that fails, until it is healed.
type fault struct {
	name string
	area string // at most one fault of an area at a time; of severalAreas none of another
	tier bool   // there is no such thing without a tier
	one  bool   // it concerns one node, which the plan draws
	// bears tells whether clients must get all that the origin has while it lasts.
	bears func(tier bool) bool
	begin func(w *World, n *Node)
	heal  func(w *World, n *Node)
}

// Areas of faults.
const (
	processArea = "process"
	redisArea   = "redis"
	peersArea   = "peers"
	originArea  = "origin"
	// severalAreas is of faults that are made of several. A node that starts without the
	// control plane and without Redis knows only what it kept itself.
	severalAreas = "several"
)

func (f fault) alone() bool { return f.area == severalAreas }

func always(bool) bool       { return true }
func never(bool) bool        { return false }
func inATier(tier bool) bool { return tier }
func nothing(*World, *Node)  {}

// faults are all that a plan is made of.
var faults = [...]fault{
	// Nodes.
	{"kill a node", processArea, false, true, always, func(_ *World, n *Node) { n.Kill() }, func(_ *World, n *Node) { n.Start() }},
	{"kill and start a node", processArea, false, true, always, func(_ *World, n *Node) { n.Kill(); n.Start() }, nothing},
	{"terminate a node", processArea, false, true, always, func(_ *World, n *Node) { n.Terminate() }, func(_ *World, n *Node) { n.Start() }},
	{"pause a node", processArea, false, true, never, func(_ *World, n *Node) { n.Pause() }, func(_ *World, n *Node) { n.Resume() }},
	{"pause a node and cut it from the origin", severalAreas, true, true, never, func(_ *World, n *Node) { n.Pause(); n.origin.cut() }, func(w *World, n *Node) {
		n.Resume()
		w.dwell(time.Second) // in which it might serve what it had
		n.origin.heal()
	}},
	{"kill a node right after a change", processArea, false, true, always, func(w *World, n *Node) {
		w.origin.Touch(w.keys[w.random.IntN(len(w.keys))])
		w.dwell(time.Duration(w.random.IntN(1000)) * time.Millisecond) // some of it is kept, some is not yet
		n.Kill()
		n.Start()
	}, nothing},
	{"kill and start all nodes", processArea, false, false, always, func(w *World, _ *Node) {
		for _, n := range w.nodes {
			n.Kill()
		}
		for _, n := range w.nodes {
			n.Start()
		}
	}, nothing},

	// Redis.
	{"cut a node from Redis", redisArea, true, true, always, func(_ *World, n *Node) { n.redis.cut() }, func(_ *World, n *Node) { n.redis.heal() }},
	{"slow Redis", redisArea, true, false, always, onEach(func(n *Node) { n.redis.slow(time.Second) }), onEach(func(n *Node) { n.redis.heal() })},
	{"flush Redis", redisArea, true, false, always, func(w *World, _ *Node) { w.redis.Flush() }, nothing},
	{"kill Redis", redisArea, true, false, always, func(w *World, _ *Node) { w.redis.Kill() }, func(w *World, _ *Node) { w.redis.Start() }},
	{"pause Redis", redisArea, true, false, always, func(w *World, _ *Node) { w.redis.Pause() }, func(w *World, _ *Node) { w.redis.Resume() }},
	{"read-only Redis", redisArea, true, false, always, func(w *World, _ *Node) { w.redis.ReadOnly(true) }, func(w *World, _ *Node) { w.redis.ReadOnly(false) }},

	// Peers.
	{"cut a node from its peers", peersArea, true, true, always, func(_ *World, n *Node) { n.peer.cut() }, func(_ *World, n *Node) { n.peer.heal() }},
	{"cut all peers", peersArea, true, false, always, onEach(func(n *Node) { n.peer.cut() }), onEach(func(n *Node) { n.peer.heal() })},
	{"hang a node's peers", peersArea, true, true, never, func(_ *World, n *Node) { n.peer.hang() }, func(_ *World, n *Node) { n.peer.heal() }},

	// The origin.
	{"cut a node from the origin", originArea, false, true, inATier, func(_ *World, n *Node) { cutOff(n) }, func(_ *World, n *Node) { reconnect(n) }},
	{"cut all from the origin", originArea, false, false, never, onEach(cutOff), onEach(reconnect)},
	{"hang a node's origin", originArea, false, true, never, func(_ *World, n *Node) { n.origin.hang() }, func(_ *World, n *Node) { n.origin.heal() }},
	{"restart the origin", originArea, false, false, always, func(w *World, _ *Node) { w.origin.Stop(); w.startOrigin() }, nothing},
	{"restart the origin newer", originArea, false, false, never, func(w *World, _ *Node) { w.origin.Stop() }, func(w *World, _ *Node) { w.startOrigin() }},
	{"restart the origin older", originArea, false, false, never, func(w *World, _ *Node) { w.origin.Stop() }, func(w *World, _ *Node) { w.origin.Restore(w.past); w.startOrigin() }},
	{"restart the origin empty", originArea, false, false, never, func(w *World, _ *Node) { w.origin.Stop() }, func(w *World, _ *Node) { w.origin.Restore(nil); w.startOrigin() }},
	{"empty the origin", originArea, false, false, never, func(w *World, _ *Node) { w.before = w.origin.Snapshot(); w.origin.Restore(nil) }, righten},
	{"take most from the origin", originArea, false, false, never, func(w *World, _ *Node) {
		w.before = w.origin.Snapshot()
		for _, key := range w.keys {
			w.origin.Lose(key, origin.Types[w.random.IntN(len(origin.Types))], w.random)
		}
	}, righten},
	{"add a node while the origin is away", severalAreas, true, false, never, func(w *World, _ *Node) {
		onEach(cutOff)(w, nil)
		w.spare.origin.cut()
		w.join()
		w.fleet.Move(0.2)
	}, func(w *World, _ *Node) {
		onEach(reconnect)(w, nil)
		w.spare.origin.heal()
		w.part()
	}},
	{"restart all nodes one by one while the origin is away", severalAreas, true, false, never, func(w *World, _ *Node) {
		onEach(cutOff)(w, nil)
		for _, n := range w.nodes {
			n.Terminate()
			n.Start()
			w.dwell(w.cfg.Lease) // as a rolling restart waits for readiness, and for more than that
		}
	}, onEach(reconnect)},
}

func cutOff(n *Node)    { n.origin.cut() }
func reconnect(n *Node) { n.origin.heal() }

// righten gives the control plane back what was taken from it.
func righten(w *World, _ *Node) { w.origin.Return(w.before) }

func onEach(do func(*Node)) func(*World, *Node) {
	return func(w *World, _ *Node) {
		for _, n := range w.nodes {
			do(n)
		}
	}
}
