package upstream

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ending is how an attempt at a stream went.
type ending struct {
	err error
	// opened says that there was a stream; responded that it brought a
	// response.
	opened, responded bool
	// ours says that this side has ended it.
	ours bool
	// unreadable says that the server sent something that is no response.
	unreadable bool
	lived      time.Duration
}

// pace is one key's pace of streams to one server (C13).
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
		// The stream may have brought good responses before, of other types,
		// but what ended it will come again: a response that is larger than
		// the receive limit, or a server that sheds load.
		return p.backoff.NextBackOff()
	case !e.responded:
		return p.backoff.NextBackOff()
	}
	p.backoff.Reset()
	// At once, but no more often than the shortest pause: a server that
	// answers and closes each time must not be asked without end.
	return max(p.spread(), p.backoff.InitialInterval-e.lived)
}

// wait waits for a pause. It ends early, and the next pause is the shortest again, when
// the server is back for another key: then the outage is over for this one, too. The same
// holds when an operator orders it.
func (p *pace) wait(ctx context.Context, pause time.Duration, to target) bool {
	to.pausing(p, time.Now().Add(pause))
	defer to.pausing(p, time.Time{})
	goOn, cut := sleepUnless(ctx, pause, to.back())
	if !cut {
		return goOn
	}
	p.backoff.Reset()
	pause = min(pause, p.spread())
	to.pausing(p, time.Now().Add(pause))
	return sleep(ctx, pause)
}

// target is what streams are opened to.
type target interface {
	// reachable reports whether there is a connection, and waitReady waits
	// until there is one.
	reachable() bool
	waitReady(ctx context.Context) error
	// spread keeps many streams from being opened at once.
	spread() time.Duration
	// back is closed when the server takes part in a stream after it took part in none,
	// and by [ControlPlane.Reconnect].
	back() <-chan struct{}
	// pausing notes when the next attempt of a pace is; the zero time for none.
	pausing(p *pace, until time.Time)
}

// persist calls attempt, which opens a stream and returns when it has ended, at
// a pace that the target can bear until ctx ends.
func persist(ctx context.Context, cfg Backoff, to target, attempt func(context.Context) ending) {
	pace := newPace(cfg, to.spread)
	unopened := 0
	for {
		end := attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		// Without a connection the channel does the pacing. Failures in spite
		// of one are paced here, such as credentials that cannot be had, or a
		// connection that breaks each time before a stream is open.
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
		if to.waitReady(ctx) != nil || !sleep(ctx, to.spread()) {
			return
		}
	}
}

// sleep waits for d and reports whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	goOn, _ := sleepUnless(ctx, d, nil)
	return goOn
}

// sleepUnless waits for d, and less where early is closed, which cut reports. goOn reports
// whether ctx has not ended.
func sleepUnless(ctx context.Context, d time.Duration, early <-chan struct{}) (goOn, cut bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil, false
	case <-ctx.Done():
		return false, false
	case <-early:
		return ctx.Err() == nil, true
	}
}
