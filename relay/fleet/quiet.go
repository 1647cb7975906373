package fleet

import (
	"maps"
	"sync"
	"time"
)

// Quiet is since when nodes do not answer. The zero value knows of none. All methods are
// safe for concurrent use.
type Quiet struct {
	mu    sync.Mutex
	nodes map[string]quiet // guarded by mu
}

// quiet is how a node answers.
type quiet struct {
	failing bool
	since   time.Time // when it answered last, or was found for the first time not to
	last    time.Time // when it was asked last
}

// Note says whether a node has answered.
func (q *Quiet) Note(node string, answered bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one, known := q.nodes[node]
	if !known {
		// Who is asked no more is no node of the tier any more.
		maps.DeleteFunc(q.nodes, func(_ string, o quiet) bool { return now.Sub(o.last) > strayTime })
	}
	if answered || !known {
		one.since = now
	}
	one.failing, one.last = !answered, now
	if q.nodes == nil {
		q.nodes = make(map[string]quiet)
	}
	q.nodes[node] = one
}

// Since is when a node that does not answer last did; zero for one that does, or was not
// asked.
func (q *Quiet) Since(node string) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one := q.nodes[node]; one.failing {
		return one.since
	}
	return time.Time{}
}
