package limit

import "time"

// memory is what a node does about its memory. It only calculates.
type memory struct {
	tight  bool      // no new streams
	cycles uint64    // of the collector, when somebody was sent away last
	at     time.Time // when the collector was last seen to have run
	seen   uint64    // its cycles then
}

// usage is how much memory there is in use: of it, what no collection would free.
type usage struct {
	used, limit uint64 // bytes; a limit of 0 is none
	cycles      uint64 // collections so far
}

// relief is what is due.
type relief struct {
	tight   bool // let in no new streams, and empty caches
	shed    bool // send away some of the most expensive clients
	collect bool // collect, since what is known is old
}

const (
	// memorySlack is by how many percent less has to be in use for new streams to be
	// let in again.
	memorySlack = 5
	// collectPause is how old what is known of a tight memory may be.
	collectPause = 5 * time.Second
)

// step tells what to do. Clients are sent away only after a collection that has seen
// what the last ones gave back: so nobody is sent away who need not be.
func (m *memory) step(now time.Time, u usage, percent int) (r relief) {
	if u.limit == 0 || percent <= 0 {
		*m = memory{}
		return r
	}
	if u.cycles != m.seen || m.at.IsZero() {
		m.seen, m.at = u.cycles, now
	}
	share := float64(u.used) / float64(u.limit) * 100
	most := float64(percent)
	if m.tight {
		most -= memorySlack
	}
	m.tight = share >= most
	r.tight = m.tight
	if !m.tight {
		return r
	}
	if share >= float64(percent+100)/2 && u.cycles != m.cycles {
		m.cycles = u.cycles
		r.shed = true
	}
	if now.Sub(m.at) >= collectPause {
		m.at = now
		r.collect = true
	}
	return r
}
