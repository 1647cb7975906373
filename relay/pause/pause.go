// Package pause waits: until a time is over or nobody waits any more, and for the moments at which a
// process does its periodic work.
package pause

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends, and reports whether ctx is still active. It does not wait if d
// is zero or negative.
func For(ctx context.Context, d time.Duration) bool {
	active, _ := Unless(ctx, d, nil)
	return active
}

// Unless is [For] that also ends when early is closed, which cut reports. A nil channel never is.
func Unless(ctx context.Context, d time.Duration, early <-chan struct{}) (active, cut bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-early:
		cut = true
	}
	return ctx.Err() == nil, cut
}

// moment is when in each second periodic work is due: not at its beginning, when much else happens.
const moment = 137 * time.Millisecond

// Next returns the time until the next multiple of every by the wall clock: more than zero, and every
// at most. Periodic work waits for it, so that the work of a process, and of all nodes of a tier, is
// due at the same moments: an idle process pays more for waking up than for what it does then.
func Next(every time.Duration) time.Duration {
	return every - time.Duration(time.Now().Add(-moment).UnixNano())%every
}
