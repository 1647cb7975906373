package limit

import (
	"time"

	"xdsrelay/relay/lockorder"
)

// maxSync bounds Values.SyncWithin.
const maxSync = time.Minute

// arrivals counts the streams that are not in sync yet, by the second in which they
// came: who has not been in sync for long is waiting for something else, or does not
// want to, and counts no more.
type arrivals struct {
	mu lockorder.Mutex[lockorder.Leaf]
	// Guarded by mu.
	seconds  [maxSync/time.Second + 2]second // by their number
	finished uint64                          // streams that came in sync
}

// second is what came in a second.
type second struct {
	at    uint32
	count int
}

// Arrival is when a stream came. The zero Arrival counts for nothing.
type Arrival uint32

func (a *arrivals) at(at uint32) *second { return &a.seconds[at%uint32(len(a.seconds))] }

// came counts a new stream, and tells how many of its second are not in sync.
func (a *arrivals) came(now time.Time) (Arrival, int) {
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

// done takes a stream out again, which is in sync or has ended.
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

// starting is how many have come within a time and are not in sync, and how many came
// in sync ever.
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
