package xdstest

import (
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// inbox is an unbounded queue between a receiving goroutine and a test that
// takes items out one by one, not necessarily in their order.
type inbox[T any] struct {
	who  string         // fixed; begins the messages of waits that fail
	log  *Transcript    // fixed; ends them
	line func(T) string // fixed; an item in one line

	mu sync.Mutex // guards all below

	items   []T
	ended   bool
	end     error         // why nothing more will come; may be nil
	changed chan struct{} // closed and replaced with every change
}

func newInbox[T any](who string, log *Transcript, line func(T) string) *inbox[T] {
	return &inbox[T]{who: who, log: log, line: line, changed: make(chan struct{})}
}

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

// next takes the oldest item that match accepts; nil accepts any. It fails the
// test if none comes within [Patience], or the queue ends. what completes
// "waited for …".
func (q *inbox[T]) next(t TB, what string, match func(T) bool) T {
	t.Helper()
	item, how, why := q.take(PatienceHere(), orAny(match))
	switch how {
	case timedOut:
		t.Fatalf("%s: waited %v for %s, in vain%s", q.who, PatienceHere(), what, q.log)
	case ended:
		t.Fatalf("%s: ended (%v) instead of bringing %s%s", q.who, why, what, q.log)
	}
	return item
}

// quiet fails the test if an item that match accepts waits to be taken or comes
// within d (0 means [QuietWindow]), or if the queue ends: who is gone is silent,
// whatever it would have done.
func (q *inbox[T]) quiet(t TB, d time.Duration, match func(T) bool) {
	t.Helper()
	if d <= 0 {
		d = QuietWindow
	}
	item, how, why := q.take(d, orAny(match))
	if how == timedOut && isVirtualTime() {
		// What is due at this very instant may not have happened yet. It would meet the next step
		// of the test, in either order.
		synctest.Wait()
		item, how, why = q.take(0, orAny(match))
	}
	switch how {
	case taken:
		t.Fatalf("%s: expected silence for %v, got %s%s", q.who, d, q.line(item), q.log)
	case ended:
		t.Fatalf("%s: ended (%v) within the quiet window%s", q.who, why, q.log)
	}
}

// untilEnd waits for the end of the queue and returns its reason. The test fails
// if it does not end within [Patience].
func (q *inbox[T]) untilEnd(t TB) error {
	t.Helper()
	how, why := q.waitEnd(PatienceHere())
	if how != ended {
		t.Fatalf("%s: still open after %v%s", q.who, PatienceHere(), q.log)
	}
	return why
}

func orAny[T any](match func(T) bool) func(T) bool {
	if match == nil {
		return func(T) bool { return true }
	}
	return match
}

// waitEnd waits for the end of the queue, at most for d.
func (q *inbox[T]) waitEnd(d time.Duration) (how outcome, why error) {
	_, how, why = q.take(d, func(T) bool { return false })
	return how, why
}
