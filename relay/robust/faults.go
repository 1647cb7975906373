package robust

import (
	"time"

	"xdsrelay/relay/robust/origin"
	"xdsrelay/shard/redistest"
)

// fault is something that fails, until it is healed.
type fault struct {
	name string
	area string // at most one fault of an area at a time; of severalAreas none of another
	in   place  // where it can happen
	one  bool   // it concerns one node, which the plan draws
	// bears tells whether clients must get all that the origin has while it lasts.
	bears func(tier bool) bool
	begin func(w *World, n *Node)
	heal  func(w *World, n *Node)
}

// place says which runs have a fault.
type place int

const (
	anywhere  place = iota
	aTier           // there is no such thing without a tier
	oneServer       // a tier with a single Redis server, which nodes reach through proxies of their own
	aCluster        // a tier with a Redis Cluster
)

func (p place) has(cfg Config) bool {
	switch p {
	case aTier:
		return cfg.Tier
	case oneServer:
		return cfg.Tier && !cfg.Cluster
	case aCluster:
		return cfg.Tier && cfg.Cluster
	default:
		return true
	}
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
	{"kill a node", processArea, anywhere, true, always, func(_ *World, n *Node) { n.Kill() }, func(_ *World, n *Node) { n.Start() }},
	{"kill and start a node", processArea, anywhere, true, always, func(_ *World, n *Node) { n.Kill(); n.Start() }, nothing},
	{"terminate a node", processArea, anywhere, true, always, func(_ *World, n *Node) { n.Terminate() }, func(_ *World, n *Node) { n.Start() }},
	{"pause a node", processArea, anywhere, true, never, func(_ *World, n *Node) { n.Pause() }, func(_ *World, n *Node) { n.Resume() }},
	{"pause a node and cut it from the origin", severalAreas, aTier, true, never, func(_ *World, n *Node) { n.Pause(); n.origin.cut() }, func(w *World, n *Node) {
		n.Resume()
		w.dwell(time.Second) // in which it might serve what it had
		n.origin.heal()
	}},
	{"kill a node right after a change", processArea, anywhere, true, always, func(w *World, n *Node) {
		w.origin.Touch(w.keys[w.random.IntN(len(w.keys))])
		w.dwell(time.Duration(w.random.IntN(1000)) * time.Millisecond) // some of it is kept, some is not yet
		n.Kill()
		n.Start()
	}, nothing},
	{"kill and start all nodes", processArea, anywhere, false, always, func(w *World, _ *Node) {
		for _, n := range w.nodes {
			n.Kill()
		}
		for _, n := range w.nodes {
			n.Start()
		}
	}, nothing},

	// Redis.
	{"cut a node from Redis", redisArea, oneServer, true, always, func(_ *World, n *Node) { n.redis.cut() }, func(_ *World, n *Node) { n.redis.heal() }},
	{"slow Redis", redisArea, oneServer, false, always, onEach(func(n *Node) { n.redis.slow(time.Second) }), onEach(func(n *Node) { n.redis.heal() })},
	{"flush Redis", redisArea, aTier, false, always, func(w *World, _ *Node) { w.flushRedis() }, nothing},
	{"kill Redis", redisArea, aTier, false, always, onRedis((*redistest.Server).Kill), onRedis((*redistest.Server).Start)},
	{"pause Redis", redisArea, aTier, false, always, onRedis((*redistest.Server).Pause), onRedis((*redistest.Server).Resume)},
	{"read-only Redis", redisArea, oneServer, false, always, func(w *World, _ *Node) { w.redis.ReadOnly(true) }, func(w *World, _ *Node) { w.redis.ReadOnly(false) }},
	{"kill a master of the Redis Cluster", redisArea, aCluster, false, always, func(w *World, _ *Node) { w.failOver((*redistest.Server).Kill) }, func(w *World, _ *Node) { w.rejoin((*redistest.Server).Start) }},
	{"pause a master of the Redis Cluster", redisArea, aCluster, false, always, func(w *World, _ *Node) { w.failOver((*redistest.Server).Pause) }, func(w *World, _ *Node) { w.rejoin((*redistest.Server).Resume) }},

	// Peers.
	{"cut a node from its peers", peersArea, aTier, true, always, func(_ *World, n *Node) { n.peer.cut() }, func(_ *World, n *Node) { n.peer.heal() }},
	{"cut all peers", peersArea, aTier, false, always, onEach(func(n *Node) { n.peer.cut() }), onEach(func(n *Node) { n.peer.heal() })},
	{"hang a node's peers", peersArea, aTier, true, never, func(_ *World, n *Node) { n.peer.hang() }, func(_ *World, n *Node) { n.peer.heal() }},

	// The origin.
	{"cut a node from the origin", originArea, anywhere, true, inATier, func(_ *World, n *Node) { cutOff(n) }, func(_ *World, n *Node) { reconnect(n) }},
	{"cut all from the origin", originArea, anywhere, false, never, onEach(cutOff), onEach(reconnect)},
	{"hang a node's origin", originArea, anywhere, true, never, func(_ *World, n *Node) { n.origin.hang() }, func(_ *World, n *Node) { n.origin.heal() }},
	{"restart the origin", originArea, anywhere, false, always, func(w *World, _ *Node) { w.origin.Stop(); w.startOrigin() }, nothing},
	{"restart the origin newer", originArea, anywhere, false, never, func(w *World, _ *Node) { w.origin.Stop() }, func(w *World, _ *Node) { w.startOrigin() }},
	{"restart the origin older", originArea, anywhere, false, never, func(w *World, _ *Node) { w.origin.Stop() }, func(w *World, _ *Node) { w.origin.Restore(w.past); w.startOrigin() }},
	{"restart the origin empty", originArea, anywhere, false, never, func(w *World, _ *Node) { w.origin.Stop() }, func(w *World, _ *Node) { w.origin.Restore(nil); w.startOrigin() }},
	{"empty the origin, and put it right within the hold", originArea, anywhere, false, always, func(w *World, _ *Node) {
		w.empty()
		w.dwell(time.Duration(w.random.Int64N(int64(guardHold / 2))))
		righten(w, nil)
	}, nothing},
	{"empty the origin, and put it right after the hold", originArea, anywhere, false, never, func(w *World, _ *Node) {
		w.empty()
		w.dwell(guardHold + time.Duration(w.random.Int64N(int64(guardHold))))
	}, righten},
	{"take most from the origin", originArea, anywhere, false, never, func(w *World, _ *Node) {
		w.before = w.origin.Snapshot()
		for _, key := range w.keys {
			w.origin.Lose(key, origin.Types[w.random.IntN(len(origin.Types))], w.random)
		}
	}, righten},
	{"add a node while the origin is away", severalAreas, aTier, false, never, func(w *World, _ *Node) {
		onEach(cutOff)(w, nil)
		w.spare.origin.cut()
		w.join()
		w.fleet.Move(0.2)
	}, func(w *World, _ *Node) {
		onEach(reconnect)(w, nil)
		w.spare.origin.heal()
		w.part()
	}},
	{"restart all nodes one by one while the origin is away", severalAreas, aTier, false, never, func(w *World, _ *Node) {
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

// empty takes everything from the control plane.
func (w *World) empty() { w.before = w.origin.Snapshot(); w.origin.Restore(nil) }

// righten gives the control plane back what was taken from it.
func righten(w *World, _ *Node) { w.origin.Return(w.before) }

func onEach(do func(*Node)) func(*World, *Node) {
	return func(w *World, _ *Node) {
		for _, n := range w.nodes {
			do(n)
		}
	}
}
