package xdstest

import (
	"slices"
	"sync"
	"time"
)

// inbox is an unbounded queue between a receiving goroutine and a test that
// takes items out one by one, not necessarily in their order.
type inbox[T any] struct {
	mu sync.Mutex // guards all below

	items   []T
	ended   bool
	end     error         // why nothing more will come; may be nil
	changed chan struct{} // closed and replaced with every change
}

func newInbox[T any]() *inbox[T] { return &inbox[T]{changed: make(chan struct{})} }

func (q *inbox[T]) put(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, item)
	q.signalLocked()
}

// finish says that nothing more will come. Only the first call counts.
func (q *inbox[T]) finish(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.ended, q.end = true, why
		q.signalLocked()
	}
}

// signalLocked wakes those who wait. q.mu is held.
func (q *inbox[T]) signalLocked() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// outcome says how a wait for an item ended.
type outcome int

const (
	taken outcome = iota
	timedOut
	ended
)

// take removes the oldest item that match accepts. It waits for one, at most
// for d, and not beyond the end of the queue, whose reason it returns.
func (q *inbox[T]) take(d time.Duration, match func(T) bool) (item T, how outcome, why error) {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	for late := false; ; {
		q.mu.Lock()
		if i := slices.IndexFunc(q.items, match); i >= 0 {
			item = q.items[i]
			q.items = slices.Delete(q.items, i, i+1)
			q.mu.Unlock()
			return item, taken, nil
		}
		isOver, end, changed := q.ended, q.end, q.changed
		q.mu.Unlock()
		switch {
		case isOver:
			return item, ended, end
		case late:
			return item, timedOut, nil
		}
		select {
		case <-changed:
		case <-deadline.C:
			late = true
		}
	}
}

// waitEnd waits for the end of the queue, at most for d.
func (q *inbox[T]) waitEnd(d time.Duration) (how outcome, why error) {
	_, how, why = q.take(d, func(T) bool { return false })
	return how, why
}
