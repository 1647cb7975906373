package relay

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/series"
)

// The questions of nodes about copies of samples: those that a node keeps of others, and
// that it copies those of one node, which paramFrom names.
const (
	askCopies, askCopy = "series/copies", "series/copy"
	paramFrom          = "from"
)

const (
	// copyPause is between two times that the samples of other nodes are copied while
	// nobody looks at them: a node that crashes takes with it the samples of that time at
	// most. Those of a node that drains are copied at its end.
	copyPause = 5 * time.Minute
	// copyTime is what a node that drains waits for that.
	copyTime = 2 * time.Second
)

// copies are the samples of other nodes, so that the last hour of the tier outlives them.
type copies struct {
	mu sync.Mutex
	// Guarded by mu.
	parts series.Copies
	began bool      // another node was asked for its copies, or there was none
	at    time.Time // they were copied last
}

// seriesOfAll asks all nodes for their samples after a moment, and adds those of nodes
// that have left, or do not answer.
func (n *Node) seriesOfAll(ctx context.Context, since int64) ([]series.Part, []ops.Silent) {
	var names []string
	for _, m := range n.everybody().All() {
		if m.Name != n.name {
			names = append(names, m.Name)
		}
	}
	c := &n.copies
	c.mu.Lock()
	from := since
	if len(names) > 0 {
		from = min(since, c.parts.Since(names))
	}
	c.mu.Unlock()
	parts, silent := ops.AskAll[series.Part](ctx, n.everybody(), askSeries, url.Values{paramSince: {strconv.FormatInt(from-series.Step, 10)}}, nil) // with the one before: see Join
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Now()
	c.parts.Add(slices.DeleteFunc(slices.Clone(parts), func(p series.Part) bool { return p.Node == n.name || p.Node == "" })...)
	return append(parts, c.parts.All(parts...)...), silent
}

// copySamples copies the samples of other nodes if it is time to: those of the past hour
// when this node starts.
func (n *Node) copySamples(ctx context.Context) {
	others, _ := n.everybody().Others()
	if len(others) == 0 {
		return
	}
	c := &n.copies
	c.mu.Lock()
	began, at := c.began, c.at
	c.mu.Unlock()
	if !began {
		answers, _ := ops.AskAll[[]series.Part](ctx, n.everybody(), askCopies, url.Values{}, func(node string) bool { return node == others[0].Name })
		c.mu.Lock()
		c.parts.Add(slices.DeleteFunc(slices.Concat(answers...), func(p series.Part) bool { return p.Node == n.name })...)
		c.began = true
		c.mu.Unlock()
	}
	if !began || time.Since(at) >= copyPause {
		n.seriesOfAll(ctx, time.Now().Unix())
		n.copyEvents(ctx, func(node string) bool { return node != n.name })
	}
}

// copyFrom copies the samples and events of a node, which is about to end.
func (n *Node) copyFrom(ctx context.Context, node string) {
	n.copyEvents(ctx, func(one string) bool { return one == node })
	n.copies.mu.Lock()
	since := n.copies.parts.Since([]string{node})
	n.copies.mu.Unlock()
	parts, _ := ops.AskAll[series.Part](ctx, n.everybody(), askSeries, url.Values{paramSince: {strconv.FormatInt(since, 10)}}, func(one string) bool { return one == node })
	n.copies.mu.Lock()
	defer n.copies.mu.Unlock()
	n.copies.parts.Add(parts...)
}

// handOverSamples makes the other nodes copy the samples of this one.
func (n *Node) handOverSamples() {
	ctx, cancel := context.WithTimeout(context.Background(), copyTime)
	defer cancel()
	ops.AskAll[bool](ctx, n.everybody(), askCopy, url.Values{paramFrom: {n.name}}, func(node string) bool { return node != n.name })
}

// copied are the samples that this node keeps of others.
func (n *Node) copied() []series.Part {
	n.copies.mu.Lock()
	defer n.copies.mu.Unlock()
	return n.copies.parts.All()
}
