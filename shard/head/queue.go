package head

import (
	"slices"
	"sync/atomic"
	"time"

	"xdsrelay/relay/lockorder"
)

// queue has the keys that the writer is to handle, each at most once. All methods are safe for
// concurrent use, and may be called with any lock held that is no leaf.
type queue[K comparable] struct {
	dirty chan struct{} // signalled for each key; fixed after construction

	mu lockorder.Mutex[lockorder.Leaf]
	// Guarded by mu.
	keys []K
	in   map[K]struct{} // the same keys
}

// add puts a key at the end, unless the queue has it.
func (q *queue[K]) add(k K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.in[k]; ok {
		return
	}
	if q.in == nil {
		q.in = make(map[K]struct{})
	}
	q.in[k] = struct{}{}
	q.keys = append(q.keys, k)
	signal(q.dirty)
}

// take removes the first keys, at most n. The caller reads their state afterwards, so that a later
// change, which adds a key again, is not missed.
func (q *queue[K]) take(n int) []K {
	q.mu.Lock()
	defer q.mu.Unlock()
	some := slices.Clone(q.keys[:min(n, len(q.keys))])
	for _, k := range some {
		delete(q.in, k)
	}
	if q.keys = slices.Delete(q.keys, 0, len(some)); len(q.keys) == 0 {
		q.keys, q.in = nil, nil // releases the memory
	}
	return some
}

// has reports whether the queue has a key.
func (q *queue[K]) has(k K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ok := q.in[k]
	return ok
}

// later calls do a while after the first of several events. All methods are safe for concurrent use,
// and do not block.
type later struct {
	after time.Duration
	do    func()
	state atomic.Uint32 // calm, waiting or stopped
}

// The states of a later.
const (
	calm    uint32 = iota // there was no event since the last call of do
	waiting               // do will be called, for all events until then
	stopped               // do is not called any more
)

// event makes do be called. Events before that call make no other one.
func (l *later) event() {
	if l.state.CompareAndSwap(calm, waiting) {
		time.AfterFunc(l.after, func() {
			if l.state.CompareAndSwap(waiting, calm) {
				l.do()
			}
		})
	}
}

// stop ends l. A call of do that has begun may still run.
func (l *later) stop() { l.state.Store(stopped) }
