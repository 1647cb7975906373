package limit

import (
	"time"

	"xdsrelay/relay/lockorder"
)

// maxSync bounds Values.SyncWithin.
const maxSync = time.Minute

// arrivals counts the streams that are not in sync yet, by the second in which they started. A
// stream that stays out of sync for longer is waiting for something else, or does not want to be in
// sync, and counts no more.
type arrivals struct {
	mu lockorder.Mutex[lockorder.Leaf]
	// Guarded by mu.
	seconds  [maxSync/time.Second + 2]second // index: Unix time modulo the length
	finished uint64                          // streams that came in sync, since the start
}

// second counts the streams that started in one second.
type second struct {
	at    uint32
	count int
}

// Arrival is when a stream started. The zero Arrival counts nothing.
type Arrival uint32

func (a *arrivals) at(at uint32) *second { return &a.seconds[at%uint32(len(a.seconds))] }

// started counts a new stream. It returns how many streams of the same second are not in sync.
func (a *arrivals) started(now time.Time) (Arrival, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := uint32(now.Unix())
	s := a.at(at)
	if s.at != at {
		*s = second{at: at}
	}
	s.count++
	return Arrival(at), s.count
}

// done uncounts a stream that is in sync or has ended.
func (a *arrivals) done(at Arrival, inSync bool) {
	if at == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.at(uint32(at)); s.at == uint32(at) {
		s.count--
	}
	if inSync {
		a.finished++
	}
}

// starting returns how many streams started within the given time and are not in sync, and how many
// ever came in sync.
func (a *arrivals) starting(now time.Time, within time.Duration) (n int, finished uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	newest := uint32(now.Unix())
	for i := range uint32(within/time.Second) + 1 {
		if s := a.at(newest - i); s.at == newest-i {
			n += s.count
		}
	}
	return n, a.finished
}
