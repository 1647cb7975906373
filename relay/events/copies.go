package events

import (
	"slices"
	"time"
)

// Bounds of copies: how many runs of other nodes, and how many events of each.
const (
	mostCopies = 32
	mostCopied = 200
)

// Copies are events of other nodes, which outlive them. It is for one goroutine at a time; the zero
// value is empty.
type Copies struct{ parts []Part }

// Add takes in what other nodes have of themselves and of others, as far as it is new. own is the
// run of this node.
func (c *Copies) Add(own string, parts ...Part) {
	for _, p := range parts {
		if p.Run == own || p.Run == "" || p.Node == "" {
			continue
		}
		i := slices.IndexFunc(c.parts, func(o Part) bool { return o.Run == p.Run })
		if i < 0 {
			i = len(c.parts)
			c.parts = append(c.parts, Part{Node: p.Node, Run: p.Run})
		}
		to := &c.parts[i]
		for _, e := range p.Events {
			if e.Seq > to.Last {
				to.Events, to.Last = append(to.Events, e), e.Seq
			}
		}
		to.Events = slices.Clone(to.Events[max(0, len(to.Events)-mostCopied):])
	}
	c.parts = slices.DeleteFunc(c.parts, func(p Part) bool { return len(p.Events) == 0 })
	if len(c.parts) > mostCopies {
		slices.SortFunc(c.parts, func(a, b Part) int { return b.newest().Compare(a.newest()) })
		c.parts = slices.Delete(c.parts, mostCopies, len(c.parts))
	}
}

// Positions say how far the copies go.
func (c *Copies) Positions() Positions {
	read := make(Positions, len(c.parts))
	for _, p := range c.parts {
		read[p.Run] = p.Last
	}
	return read
}

// After returns of each run what a reader lacks; see [Ring.After].
func (c *Copies) After(read Positions, since time.Time) (all []Part) {
	for _, p := range c.parts {
		after, out := read[p.Run], Part{Node: p.Node, Run: p.Run, Last: p.Last, Events: []Event{}}
		for _, e := range p.Events {
			if e.Seq > after || !since.IsZero() && !e.Time.Before(since) {
				out.Events = append(out.Events, e)
			}
		}
		all = append(all, out)
	}
	return all
}

func (p *Part) newest() time.Time {
	if len(p.Events) == 0 {
		return time.Time{}
	}
	return p.Events[len(p.Events)-1].Time
}

// Distinct joins parts of the same run, such as a node's own and copies of it: of each event there
// is one.
func Distinct(parts []Part) (all []Part) {
	for _, p := range parts {
		i := slices.IndexFunc(all, func(o Part) bool { return o.Run == p.Run })
		if i < 0 {
			p.Events = slices.Clone(p.Events)
			all = append(all, p)
			continue
		}
		to := &all[i]
		for _, e := range p.Events {
			if !slices.ContainsFunc(to.Events, func(o Event) bool { return o.Seq == e.Seq }) {
				to.Events = append(to.Events, e)
			}
		}
		to.Last = max(to.Last, p.Last)
	}
	return all
}
