package ops

import (
	"cmp"
	"slices"
	"time"
)

// Skew is a node's clock that differs from those of the others.
type Skew struct {
	Node string `json:"node"`
	// From is the node that it is compared with.
	From string `json:"from"`
	// Ahead is by how many seconds; negative for a clock that is behind.
	Ahead float64 `json:"ahead_seconds"`
	// Since is when that was first seen.
	Since time.Time `json:"since"`
}

// Skews are the clocks that differ by more than most from the one in the middle, by node.
// offsets are by how much each node's clock is ahead of that of the asking node, which is
// one of them. Whichever node asks, it is the same clock in the middle.
func Skews(offsets map[string]time.Duration, most time.Duration) (all []Skew) {
	type clock struct {
		node  string
		ahead time.Duration
	}
	clocks := make([]clock, 0, len(offsets))
	for node, ahead := range offsets {
		clocks = append(clocks, clock{node, ahead})
	}
	if len(clocks) < 2 {
		return nil
	}
	slices.SortFunc(clocks, func(a, b clock) int { return cmp.Or(cmp.Compare(a.ahead, b.ahead), cmp.Compare(a.node, b.node)) })
	middle := clocks[(len(clocks)-1)/2]
	for _, c := range clocks {
		if d := c.ahead - middle.ahead; d.Abs() > most {
			all = append(all, Skew{Node: c.node, From: middle.node, Ahead: d.Seconds()})
		}
	}
	slices.SortFunc(all, func(a, b Skew) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

// Offset is by how much a clock that said a time between two moments of another one is
// ahead of that other one, at least: nothing where it may have been any of these moments.
func Offset(said, before, after time.Time) time.Duration {
	switch {
	case said.Before(before):
		return said.Sub(before)
	case said.After(after):
		return said.Sub(after)
	}
	return 0
}
