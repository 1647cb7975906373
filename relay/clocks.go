package relay

import (
	"slices"
	"sync"
	"time"

	"xdsrelay/relay/logs"
	"xdsrelay/relay/ops"
	"xdsrelay/shard"
)

// mostSkew is by how much clocks of nodes may differ. Nodes do not compare their clocks
// but to show how old something is, and for certificates.
const mostSkew = 2 * time.Second

// clocks are how the clocks of the tier's nodes differ.
type clocks struct {
	mu sync.Mutex
	// Guarded by mu.
	all     []ops.Skew
	largest time.Duration // between this node's clock and another one's
}

// differ are those that did when the nodes were asked last.
func (c *clocks) differ() []ops.Skew {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// most is the largest difference from this node's clock.
func (c *clocks) most() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.largest
}

// note takes in by how much other clocks are ahead of this node's, and returns which begin
// to differ and which no longer do. One that has not answered, and may be there, stays.
func (c *clocks) note(self string, offsets map[string]time.Duration, there []shard.Member, now time.Time) (came, went []ops.Skew) {
	offsets[self] = 0
	found := ops.Skews(offsets, mostSkew)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.largest = 0
	for _, ahead := range offsets {
		c.largest = max(c.largest, ahead.Abs())
	}
	of := func(all []ops.Skew, node string) int {
		return slices.IndexFunc(all, func(s ops.Skew) bool { return s.Node == node })
	}
	for _, before := range c.all {
		_, answered := offsets[before.Node]
		if !answered && slices.ContainsFunc(there, func(m shard.Member) bool { return m.Name == before.Node }) {
			found = append(found, before)
		}
		if of(found, before.Node) < 0 {
			went = append(went, before)
		}
	}
	for i := range found {
		if k := of(c.all, found[i].Node); k >= 0 {
			found[i].Since = c.all[k].Since
			continue
		}
		found[i].Since = now
		came = append(came, found[i])
	}
	c.all = found
	return came, went
}

// compareClocks takes in what nodes said between two moments.
func (n *Node) compareClocks(answers []told, before, after time.Time) {
	offsets := make(map[string]time.Duration)
	for _, one := range answers {
		if one.Clock != 0 { // older versions say nothing
			offsets[one.Node] = ops.Offset(time.UnixMilli(one.Clock), before.Truncate(time.Millisecond), after)
		}
	}
	came, went := n.clocks.note(n.name, offsets, n.everybody().All(), time.Now())
	log := n.part(logs.Tier)
	for _, s := range came {
		log.Warn("the clock of a node differs from those of the others; correct it, for example with NTP", "member", s.Node, "differs_from", s.From, "ahead", seconds(s.Ahead).String())
	}
	for _, s := range went {
		log.Info("the clock of a node no longer differs, or it left the tier", "member", s.Node)
	}
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}
