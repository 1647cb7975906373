package upstream

import (
	"context"
	"errors"
	"time"
)

// nearest stands for the best server that can be reached. A worse one is never
// connected to for its sake: it is used where the configuration streams have had
// to turn to it (C15).
type nearest struct{ servers []*server }

// pick returns the best server that can be reached, or else the best.
func (n nearest) pick() *server {
	for _, s := range n.servers {
		if s.reachable() {
			return s
		}
	}
	return n.servers[0]
}

func (n nearest) reachable() bool { return n.pick().reachable() }

func (n nearest) spread() time.Duration { return n.servers[0].spread() }

func (n nearest) back() <-chan struct{} { return n.pick().back() }

// pausing notes nothing: what is shown of a server is when streams of keys are tried.
func (nearest) pausing(*pace, time.Time) {}

// turnEvery is how often it is looked whether a worse server can be reached
// while the best one cannot.
const turnEvery = 5 * time.Second

// waitReady waits until a server can be reached.
func (n nearest) waitReady(ctx context.Context) error {
	if len(n.servers) == 1 {
		return n.servers[0].waitReady(ctx)
	}
	for !n.reachable() {
		turn, cancel := context.WithTimeout(ctx, turnEvery)
		err := n.servers[0].waitReady(turn)
		cancel()
		if ctx.Err() != nil || errors.Is(err, errClosed) {
			return err
		}
	}
	return nil
}
