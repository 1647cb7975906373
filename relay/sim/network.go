package sim

import (
	"time"

	"xdsrelay/relay/xdstest"
)

// Names of hosts, beside those of nodes.
const (
	redisHost   = "redis"
	originHost  = "cp"
	clientsHost = "clients"
)

// trouble is what is wrong between two hosts, from one to the other.
type trouble struct {
	from, to string
	xdstest.Way
}

// network adds up what is wrong between hosts: events overlap, and the ways of a pair are
// as bad as all of them make it.
type network struct {
	memory   *xdstest.Memory
	troubles map[int][]trouble // by the number of the event
}

func newNetwork() *network {
	return &network{memory: xdstest.NewMemory(), troubles: make(map[int][]trouble)}
}

// begin adds what an event makes wrong.
func (n *network) begin(event int, all ...trouble) {
	n.troubles[event] = all
	n.apply(all)
}

// end takes it back.
func (n *network) end(event int) {
	all := n.troubles[event]
	delete(n.troubles, event)
	n.apply(all)
}

// apply sets the ways of some pairs as all events have them.
func (n *network) apply(changed []trouble) {
	for _, t := range changed {
		n.memory.SetWay(t.from, t.to, n.way(t.from, t.to))
	}
}

// way is how data gets from one host to another.
func (n *network) way(from, to string) (w xdstest.Way) {
	for _, all := range n.troubles {
		for _, t := range all {
			if t.from == from && t.to == to {
				w.Refused = w.Refused || t.Refused
				w.Stalled = w.Stalled || t.Stalled
				w.Delay = max(w.Delay, t.Delay)
				w.Jitter = max(w.Jitter, t.Jitter)
			}
		}
	}
	return w
}

// stalls reports whether what one of two hosts sends to the other gets stuck.
func (n *network) stalls(a, b string) bool { return n.way(a, b).Stalled || n.way(b, a).Stalled }

// slowest is the longest delay that counts as none: well below the times that nodes give
// one another.
const slowest = 20 * time.Millisecond

// fine reports whether two hosts reach one another without trouble.
func (n *network) fine(a, b string) bool {
	if a == b {
		return true
	}
	for _, w := range []xdstest.Way{n.way(a, b), n.way(b, a)} {
		if w.Refused || w.Stalled || w.Delay+w.Jitter > slowest {
			return false
		}
	}
	return true
}

// passes reports whether what two hosts send arrives, however late.
func (n *network) passes(a, b string) bool {
	there, back := n.way(a, b), n.way(b, a)
	return !there.Refused && !there.Stalled && !back.Refused && !back.Stalled
}

// both is trouble in both directions.
func both(a, b string, w xdstest.Way) []trouble {
	return []trouble{{a, b, w}, {b, a, w}}
}
