package relay

import (
	"context"
	"slices"
	"sync"
)

// part is one of those that a node is made of and that have to be started or stopped. A field is nil
// where a part has nothing to do then. A node starts its parts in the order in which they were
// added, and stops them in the reverse order: a part may use those that were added before it.
type part struct {
	// serve serves on a port until stop closes it, and then returns nil. An error ends the node.
	serve func() error
	// run runs until ctx ends. That is when the node begins to drain.
	run func(ctx context.Context)
	// watch runs until ctx ends. That is when the node has drained.
	watch func(ctx context.Context)
	// drain lets clients go elsewhere. It returns when they have, or when ctx has ended.
	drain func(ctx context.Context)
	// stop ends the part at once, though it may never have been started.
	stop func()
}

// add adds a part.
func (n *Node) add(p part) { n.parts = append(n.parts, p) }

// serve makes all ports serve, each in a goroutine of a group. It returns a channel with the error of
// each port that cannot serve.
func (n *Node) serve(group *sync.WaitGroup) <-chan error {
	failed := make(chan error, len(n.parts))
	for _, p := range n.parts {
		if p.serve == nil {
			continue
		}
		group.Go(func() {
			if err := p.serve(); err != nil {
				failed <- err
			}
		})
	}
	return failed
}

// run starts the other goroutines of all parts in a group. Those that end when the node begins to
// drain end with the context running, the others with whole.
func (n *Node) run(running, whole context.Context, group *sync.WaitGroup) {
	for _, p := range n.parts {
		if p.run != nil {
			group.Go(func() { p.run(running) })
		}
		if p.watch != nil {
			group.Go(func() { p.watch(whole) })
		}
	}
}

// drainParts drains all parts at the same time.
func (n *Node) drainParts(ctx context.Context) {
	var draining sync.WaitGroup
	for _, p := range n.parts {
		if p.drain != nil {
			draining.Go(func() { p.drain(ctx) })
		}
	}
	draining.Wait()
}

// stop stops all parts. Further calls do nothing.
func (n *Node) stop() {
	for _, p := range slices.Backward(n.parts) {
		if p.stop != nil {
			p.stop()
		}
	}
	n.parts = nil
}
