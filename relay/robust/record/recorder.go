package record

import (
	"sync"
	"time"
)

// Recorder takes events from any goroutine, and gives them their order.
type Recorder struct {
	start time.Time // fixed

	mu      sync.Mutex
	seq     int     // guarded by mu
	pending []Event // guarded by mu; those that Take has not given out
	streams int     // guarded by mu
}

// NewRecorder begins a recording.
func NewRecorder() *Recorder { return &Recorder{start: time.Now()} }

// Add records an event; its Seq and At are set here.
func (r *Recorder) Add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(e)
}

// AddNext records an event if nothing was recorded since the last Take, so that it
// tells of what the taker has seen. It reports whether it did.
func (r *Recorder) AddNext(e Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) > 0 {
		return false
	}
	r.addLocked(e)
	return true
}

func (r *Recorder) addLocked(e Event) {
	r.seq++
	e.Seq, e.At = r.seq, time.Since(r.start)
	r.pending = append(r.pending, e)
}

// Stream numbers a new stream.
func (r *Recorder) Stream() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams++
	return r.streams
}

// Take gives out what was recorded since the last time, in order.
func (r *Recorder) Take() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.pending
	r.pending = nil
	return taken
}

// Since is the time since the recording began.
func (r *Recorder) Since() time.Duration { return time.Since(r.start) }
