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

// quiet is a node that does not answer: since when, and when it was found so last.
type quiet struct{ since, last time.Time }

// Note says whether a node has answered.
func (q *Quiet) Note(node string, answered bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if answered {
		delete(q.nodes, node)
		return
	}
	one, known := q.nodes[node]
	if !known {
		// Who is asked no more is no node of the tier any more.
		maps.DeleteFunc(q.nodes, func(_ string, o quiet) bool { return now.Sub(o.last) > strayTime })
		one.since = now
	}
	if q.nodes == nil {
		q.nodes = make(map[string]quiet)
	}
	one.last = now
	q.nodes[node] = one
}

// Since is since when a node does not answer; zero for one that does.
func (q *Quiet) Since(node string) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.nodes[node].since
}
