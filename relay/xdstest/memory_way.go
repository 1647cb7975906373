package xdstest

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Way is how data gets from one [Host] to another. The zero Way is a network without
// faults.
type Way struct {
	Refused bool          // connections are refused
	Stalled bool          // nothing arrives; connections hang, and so does who connects
	Delay   time.Duration // data arrives that much later
	Jitter  time.Duration // and up to this much more: data of two connections may change places
}

// faulty reports whether data cannot simply be handed over.
func (w Way) faulty() bool { return w.Stalled || w.Delay > 0 || w.Jitter > 0 }

// memoryWay is a Way, and the pipes that lead over it.
type memoryWay struct {
	now atomic.Pointer[Way] // never nil

	mu      sync.Mutex
	pipes   map[*memoryPipe]bool // guarded by mu; taken before a pipe's lock
	changed chan struct{}        // guarded by mu; closed and replaced with every change
}

func newMemoryWay() *memoryWay {
	w := &memoryWay{pipes: make(map[*memoryPipe]bool), changed: make(chan struct{})}
	w.now.Store(&Way{})
	return w
}

// is is the Way as it is now; one without hosts has no faults.
func (w *memoryWay) is() Way {
	if w == nil {
		return Way{}
	}
	return *w.now.Load()
}

// set changes the way for connections that exist and for those to come.
func (w *memoryWay) set(now Way) {
	w.now.Store(&now)
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.pipes {
		p.pump()
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// change is closed with the next change.
func (w *memoryWay) change() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *memoryWay) add(p *memoryPipe) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pipes[p] = true
}

func (w *memoryWay) drop(p *memoryPipe) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pipes, p)
}

// transit is data on its way in one pipe, in order. The pipe's lock guards it.
type transit struct {
	pieces []late
	bytes  int
	timer  *time.Timer // nil unless one is set
}

// late is data that has not arrived.
type late struct {
	data []byte
	due  time.Time
}

// put takes data that arrives as the way has it, and never before what was put
// earlier.
func (t *transit) put(data []byte, w Way) {
	due := time.Now().Add(w.Delay)
	if w.Jitter > 0 {
		due = due.Add(rand.N(w.Jitter))
	}
	if n := len(t.pieces); n > 0 && due.Before(t.pieces[n-1].due) {
		due = t.pieces[n-1].due
	}
	t.pieces = append(t.pieces, late{append([]byte(nil), data...), due})
	t.bytes += len(data)
}

// take gives out what has arrived by now.
func (t *transit) take(now time.Time) (data []byte) {
	for len(t.pieces) > 0 && !t.pieces[0].due.After(now) {
		data = append(data, t.pieces[0].data...)
		t.bytes -= len(t.pieces[0].data)
		t.pieces = t.pieces[1:]
	}
	return data
}

// wake calls f when the next piece is due.
func (t *transit) wake(f func()) {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if len(t.pieces) > 0 {
		t.timer = time.AfterFunc(time.Until(t.pieces[0].due), f)
	}
}
