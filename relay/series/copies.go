package series

import "slices"

// mostCopies bounds the nodes of which samples are kept, those of the last hour.
const mostCopies = 100

// Copies are the samples of other nodes, which outlive them. It is for one goroutine at a
// time; the zero value is empty.
type Copies struct{ parts []Part }

// Add takes in what nodes report of themselves, as far as that is newer than what is
// known of them. What is older than an hour is dropped.
func (c *Copies) Add(parts ...Part) {
	newest := int64(0)
	for _, p := range parts {
		if len(p.Samples) == 0 {
			continue
		}
		i := slices.IndexFunc(c.parts, func(o Part) bool { return o.Node == p.Node })
		if i < 0 {
			i = len(c.parts)
			c.parts = append(c.parts, Part{Node: p.Node})
		}
		own := &c.parts[i]
		own.Bounds = p.Bounds
		last := own.newest()
		for _, s := range p.Samples {
			if s.At > last {
				own.Samples = append(own.Samples, s)
			}
		}
		own.Samples = slices.Clone(own.Samples[max(0, len(own.Samples)-Kept):])
		newest = max(newest, own.newest())
	}
	c.parts = slices.DeleteFunc(c.parts, func(p Part) bool { return p.newest() <= newest-Kept*Step })
	if len(c.parts) > mostCopies {
		slices.SortFunc(c.parts, func(a, b Part) int { return int(b.newest() - a.newest()) })
		c.parts = slices.Delete(c.parts, mostCopies, len(c.parts))
	}
}

// Since is the time from which samples of some nodes are missing.
func (c *Copies) Since(nodes []string) int64 {
	since := int64(-1)
	for _, name := range nodes {
		at := int64(0)
		if i := slices.IndexFunc(c.parts, func(p Part) bool { return p.Node == name }); i >= 0 {
			at = c.parts[i].newest()
		}
		if since < 0 || at < since {
			since = at
		}
	}
	return max(since, 0)
}

// All are the samples of all nodes but those in except.
func (c *Copies) All(except ...Part) (all []Part) {
	for _, p := range c.parts {
		if !slices.ContainsFunc(except, func(o Part) bool { return o.Node == p.Node }) {
			all = append(all, Part{p.Node, p.Bounds, slices.Clone(p.Samples)})
		}
	}
	return all
}

func (p *Part) newest() int64 {
	if len(p.Samples) == 0 {
		return 0
	}
	return p.Samples[len(p.Samples)-1].At
}
