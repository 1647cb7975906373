package limit

import "time"

// memory decides what the node does about its memory. It is pure: it neither measures nor acts.
type memory struct {
	tight  bool      // new streams are refused
	cycles uint64    // garbage collections when clients were last shed
	at     time.Time // when a new garbage collection was last seen
	seen   uint64    // garbage collections then
}

// usage is the memory in use that a garbage collection would not free.
type usage struct {
	used, limit uint64 // bytes; a limit of 0 means none
	cycles      uint64 // garbage collections so far
}

// relief is what is due.
type relief struct {
	tight   bool // refuse new streams and empty caches
	shed    bool // shed some of the most expensive clients
	collect bool // run a garbage collection, since the measurement is old
}

const (
	// memorySlack is how far the use must fall below the limit before new streams are accepted
	// again, in percentage points.
	memorySlack = 5
	// collectPause is the maximum age of the measurement while memory is tight.
	collectPause = 5 * time.Second
)

// step decides what is due. Clients are shed only after a garbage collection that counts what the
// last shedding freed, so that no client is shed needlessly.
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
