package fleet

import (
	"context"
	"sync"
	"time"
)

// ramp bounds how fast connections are begun, and how many at a time.
type ramp struct {
	slots chan struct{}
	every time.Duration // between two; 0 for no bound

	mu   sync.Mutex
	next time.Time // guarded by mu
}

func newRamp(parallel int, rate float64) *ramp {
	r := &ramp{slots: make(chan struct{}, parallel)}
	if rate > 0 {
		r.every = time.Duration(float64(time.Second) / rate)
	}
	return r
}

// take waits for a turn, which ends by give. It returns false if ctx ends.
func (r *ramp) take(ctx context.Context) bool {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	wait := r.book()
	if wait <= 0 {
		return true
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		r.give()
		return false
	}
}

// book takes the next moment and returns how far away it is.
func (r *ramp) book() time.Duration {
	if r.every == 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.next.Before(now) {
		r.next = now
	}
	wait := r.next.Sub(now)
	r.next = r.next.Add(r.every)
	return wait
}

func (r *ramp) give() { <-r.slots }
