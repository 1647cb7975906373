package upstream

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/pause"
)

// ending is the result of an attempt to run a stream.
type ending struct {
	err error
	// opened is true if the stream was opened; responded if it received a response.
	opened, responded bool
	// ours is true if this side ended the stream.
	ours bool
	// unreadable is true if the server sent a message that is not a response.
	unreadable bool
	lived      time.Duration
}

// pace is the pace of one key's streams to one server (C13).
type pace struct {
	backoff backoff.ExponentialBackOff
	spread  func() time.Duration
}

func newPace(cfg Backoff, spread func() time.Duration) *pace {
	p := &pace{spread: spread, backoff: backoff.ExponentialBackOff{
		InitialInterval: cfg.Initial, Multiplier: cfg.Multiplier,
		RandomizationFactor: cfg.Jitter, MaxInterval: cfg.Max,
	}}
	p.backoff.Reset()
	return p
}

// after returns how long to wait before the next attempt.
func (p *pace) after(e ending) time.Duration {
	switch {
	case e.unreadable, status.Code(e.err) == codes.ResourceExhausted:
		// The stream may have received valid responses of other types before. But the reason of its
		// end will recur: a response above the receive limit, or a server that sheds load.
		return p.backoff.NextBackOff()
	case !e.responded:
		return p.backoff.NextBackOff()
	}
	p.backoff.Reset()
	// The next attempt follows at once, but never sooner than the shortest pause after the last
	// one: a server that always answers and closes must not cause a busy loop.
	return max(p.spread(), p.backoff.InitialInterval-e.lived)
}

// wait waits for a pause. It returns early, and resets the backoff, when the server is back for
// another key: then the outage has ended for this one, too. The same applies when an operator
// orders a reconnect.
func (p *pace) wait(ctx context.Context, d time.Duration, to target) bool {
	to.pausing(p, time.Now().Add(d))
	defer to.pausing(p, time.Time{})
	goOn, cut := pause.Unless(ctx, d, to.back())
	if !cut {
		return goOn
	}
	p.backoff.Reset()
	d = min(d, p.spread())
	to.pausing(p, time.Now().Add(d))
	return pause.For(ctx, d)
}

// target is what streams are opened to.
type target interface {
	// reachable reports whether there is a connection, and waitReady waits until there is one.
	reachable() bool
	waitReady(ctx context.Context) error
	// spread returns a random delay that keeps many streams from being opened at once.
	spread() time.Duration
	// back returns a channel that is closed when a stream is up after none was, and by
	// [ControlPlane.Reconnect].
	back() <-chan struct{}
	// pausing records when the next attempt is; zero for no pause.
	pausing(p *pace, until time.Time)
}

// retryLoop calls attempt until ctx ends, at a pace that the target can handle. attempt opens a
// stream and returns when it has ended.
func retryLoop(ctx context.Context, cfg Backoff, to target, attempt func(context.Context) ending) {
	pace := newPace(cfg, to.spread)
	unopened := 0
	for {
		end := attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		// Without a connection the channel paces attempts. Failures despite a connection are paced
		// here, such as credentials that cannot be obtained, or a connection that breaks each time
		// before a stream is open.
		if end.opened || unopened > 0 || to.reachable() {
			if !pace.wait(ctx, pace.after(end), to) {
				return
			}
		}
		if end.opened {
			unopened = 0
			continue
		}
		unopened++
		if to.waitReady(ctx) != nil || !pause.For(ctx, to.spread()) {
			return
		}
	}
}
