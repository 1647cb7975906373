// Package pause waits, until the time is over or nobody waits any more.
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
