package head

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestQueue: each key is in the queue once, in the order in which it was added, and again if it is
// added after it was taken.
func TestQueue(t *testing.T) {
	q := queue[string]{dirty: make(chan struct{}, 1)}
	if some := q.take(2); len(some) > 0 || q.has("a") {
		t.Errorf("an empty queue has %q", some)
	}
	for _, k := range []string{"a", "b", "a", "c", "b"} {
		q.add(k)
	}
	if len(q.dirty) != 1 {
		t.Error("the writer was not signaled")
	}
	if some := q.take(2); !slices.Equal(some, []string{"a", "b"}) || q.has("a") || !q.has("c") {
		t.Errorf("the first keys are %q", some)
	}
	q.add("b")
	if some := q.take(9); !slices.Equal(some, []string{"c", "b"}) {
		t.Errorf("the other keys are %q", some)
	}
}

// TestLater: events within the time are one call, an event during a call is another one, and
// nothing is called after the end.
func TestLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		l := &later{after: time.Second, do: func() { calls.Add(1) }}
		is := func(what string, pass time.Duration, want int32) {
			t.Helper()
			time.Sleep(pass) //nolint:forbidigo // virtual time
			synctest.Wait()
			if n := calls.Load(); n != want {
				t.Errorf("%s: %d calls, expected %d", what, n, want)
			}
		}
		is("without an event", time.Minute, 0)
		l.event()
		is("before the time", 999*time.Millisecond, 0)
		l.event()
		is("at the time", time.Millisecond, 1)
		is("after it", time.Minute, 1)
		l.event()
		is("the next event", time.Second, 2)
		l.event()
		l.stop()
		l.event()
		is("after the end", time.Minute, 2)
	})
}

// TestTakeSkips: keys that the node owns no more do not keep those behind them from the writer.
func TestTakeSkips(t *testing.T) {
	h := &Heads{owned: make(map[string]*owned), queue: queue[*owned]{dirty: make(chan struct{}, 1)}}
	for range 3 * atOnce {
		h.queue.add(&owned{key: "ended"})
	}
	o := &owned{key: "k"}
	h.owned["k"] = o
	h.queue.add(o)
	if some := h.take(); !slices.Equal(some, []*owned{o}) {
		t.Errorf("%d keys are taken, expected the one that is owned", len(some))
	}
	if some := h.take(); len(some) > 0 {
		t.Errorf("%d keys are taken of an empty queue", len(some))
	}
}
