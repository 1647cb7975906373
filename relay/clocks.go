package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"xdsrelay/relay/events"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/ops"
	"xdsrelay/shard"
)

// mostSkew is by how much clocks of nodes may differ. Nodes do not compare their clocks
// but to show how old something is, for certificates, and to distinguish a clock that was set from
// a machine that was suspended.
const mostSkew = 2 * time.Second

// clockAnswers bounds how long clients wait while other nodes are asked for their clocks.
const clockAnswers = 500 * time.Millisecond

// clocks are how the clocks of the tier's nodes differ.
type clocks struct {
	mu sync.Mutex
	// Guarded by mu.
	all     []ops.Skew
	largest time.Duration // between this node's clock and another one's
	// measured has the last two offsets of each node's clock, the newest first.
	measured map[string][2]offset
}

// offset is by how much another clock was ahead of this node's at a moment.
type offset struct {
	ahead time.Duration
	at    time.Time
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
	c.measure(offsets, there, now)
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

// measure records offsets of other clocks, of nodes that are there.
func (c *clocks) measure(offsets map[string]time.Duration, there []shard.Member, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	measured := make(map[string][2]offset, len(there))
	for _, m := range there {
		both := c.measured[m.Name]
		if ahead, answered := offsets[m.Name]; answered {
			both = [2]offset{{ahead, now}, both[0]}
		}
		if !both[0].at.IsZero() {
			measured[m.Name] = both
		}
	}
	c.measured = measured
}

// set reports whether this node's clock was set forward by a time since a moment: the offsets of
// other clocks have changed by that much. If they are what they were before, the clock is right
// again after the machine was suspended. Offsets that were never measured before prove nothing.
func (c *clocks) set(by time.Duration, since time.Time, offsets map[string]time.Duration) (set bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for node, ahead := range offsets {
		both := c.measured[node]
		before := both[0]
		if !before.at.Before(since) {
			before = both[1]
		}
		switch {
		case before.at.IsZero() || !before.at.Before(since):
		case ahead-before.ahead > -by/2:
			return false
		default:
			set = true
		}
	}
	return set
}

// clockSet is [tier.Pulse.ClockSet].
func (n *Node) clockSet(ctx context.Context, by time.Duration, since time.Time) bool {
	if by < mostSkew {
		return false // answers take time
	}
	ctx, cancel := context.WithTimeout(ctx, clockAnswers)
	defer cancel()
	_, offsets := n.askAllTerms(ctx)
	delete(offsets, n.name)
	return n.clocks.set(by, since, offsets)
}

// offsetsOf returns by how much the clocks of nodes are ahead that have answered. They were asked at a
// time, which was before by this node's clock. Others may answer seconds later, or not at all.
func offsetsOf(answers []termsAnswer, before, asked time.Time) map[string]time.Duration {
	offsets := make(map[string]time.Duration)
	for _, one := range answers {
		if one.Clock != 0 { // older versions say nothing
			offsets[one.Node] = ops.Offset(time.UnixMilli(one.Clock), before.Truncate(time.Millisecond), before.Add(one.arrived.Sub(asked)))
		}
	}
	return offsets
}

// compareClocks takes in by how much the clocks of other nodes are ahead of this one's.
func (n *Node) compareClocks(offsets map[string]time.Duration) {
	came, went := n.clocks.note(n.name, offsets, n.everybody().All(), time.Now())
	log := n.part(logs.Tier)
	for _, s := range came {
		log.Warn("the clock of a node differs from those of the others; correct it, for example with NTP", events.Key, events.ClockDiffers, "member", s.Node, "differs_from", s.From, "ahead", seconds(s.Ahead).String())
	}
	for _, s := range went {
		log.Info("the clock of a node no longer differs, or it left the tier", events.Key, events.ClockAgrees, "member", s.Node)
	}
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}
