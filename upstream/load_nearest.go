package upstream

import (
	"context"
	"errors"
	"time"
)

// nearest is the best server that can be reached. It never causes a connection to a worse one: it
// uses that only while configuration streams had to fail over to it (C15).
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

// pausing does nothing: the status of a server shows the attempts of configuration streams only.
func (nearest) pausing(*pace, time.Time) {}

// recheckEvery is the interval between checks whether a worse server can be reached while the best
// one cannot.
const recheckEvery = 5 * time.Second

// waitReady waits until a server can be reached.
func (n nearest) waitReady(ctx context.Context) error {
	if len(n.servers) == 1 {
		return n.servers[0].waitReady(ctx)
	}
	for !n.reachable() {
		turn, cancel := context.WithTimeout(ctx, recheckEvery)
		err := n.servers[0].waitReady(turn)
		cancel()
		if ctx.Err() != nil || errors.Is(err, errClosed) {
			return err
		}
	}
	return nil
}
