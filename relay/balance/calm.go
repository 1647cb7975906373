package balance

import (
	"time"

	"xdsrelay/shard"
)

// Calm tells since when the same nodes take clients. The zero Calm has seen none.
type Calm struct {
	nodes map[string]string // their incarnations, by name
	since time.Time
}

// Since looks at who is there at now, and returns since when that has been so: a node
// that has just come has no clients yet, and those of one that has just gone are on
// their way.
func (c *Calm) Since(members []shard.Member, now time.Time) time.Time {
	same, n := c.nodes != nil, 0
	for _, m := range members {
		if m.Draining || m.Cut {
			continue
		}
		n++
		if incarnation, ok := c.nodes[m.Name]; !ok || incarnation != m.Incarnation {
			same = false
		}
	}
	if same && n == len(c.nodes) {
		return c.since
	}
	c.nodes, c.since = make(map[string]string, n), now
	for _, m := range members {
		if !m.Draining && !m.Cut {
			c.nodes[m.Name] = m.Incarnation
		}
	}
	return now
}

// Notable tells whether a node should tell the others at once that it has clients
// now, having told them of told: by a hundredth, and in any case by more than a few.
func Notable(told, clients int) bool {
	d := clients - told
	return max(d, -d) > max(told/100, 5)
}
