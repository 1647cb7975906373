package ops

import (
	"maps"
	"sync"
	"time"

	"xdsrelay/shard"
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
	why     string    // it did not
}

// Note says that a node has answered, or with an error why it has not.
func (q *Quiet) Note(node string, failure error, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	answered := failure == nil
	one, known := q.nodes[node]
	if !known {
		// Who is asked no more is no node of the tier any more.
		maps.DeleteFunc(q.nodes, func(_ string, o quiet) bool { return now.Sub(o.last) > strayTime })
	}
	if answered || !known {
		one.since = now
	}
	one.failing, one.last, one.why = !answered, now, ""
	if !answered {
		one.why = InShort(failure)
	}
	if q.nodes == nil {
		q.nodes = make(map[string]quiet)
	}
	q.nodes[node] = one
}

// Among are those of some nodes that do not answer.
func (q *Quiet) Among(members []shard.Member) (all []Silent) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range members {
		if one := q.nodes[m.Name]; one.failing {
			all = append(all, Silent{Node: m.Name, Error: one.why, Since: one.since, Clients: m.Clients})
		}
	}
	return all
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
