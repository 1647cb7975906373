package rest

import (
	"container/list"
	"strings"
	"sync"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// pollRegistry remembers recent polls in order to show the state of their clients (K20). It answers
// no poll (H5) and adds no interest. Its bytes are bounded per client and in total, and the oldest
// polls are dropped first. So a client that uses a new name for each poll harms others only in that
// they are not shown until they poll again.
type pollRegistry struct {
	// Fixed after construction.
	cache *cache.Cache
	least time.Duration // minimum time for which every client is remembered
	most  int64         // bytes

	mu sync.Mutex
	// Guarded by mu.
	byID   map[clientID]*pollClient
	recent list.List // of *pollState, most recent first
	bytes  int64
}

// clientID identifies a client as far as polls can: a polling client has no connection of its own.
// A client with a proven identity differs from one that only claims the same id.
type clientID struct {
	id       string
	key      aggregation.Key
	identity string
	host     string // that it connects from
}

// pollClient is a polling client.
type pollClient struct {
	// Fixed after construction.
	clientID
	registry *pollRegistry
	since    time.Time

	// Guarded by the registry's mu.
	node, cluster, rule string
	fields              uint64 // of the Node, that are in node
	states              map[subject]*pollState
	recent              list.List // of *pollState, most recent first
	bytes               int64     // in total
}

// subject is what a poll asks for. One client may poll for different names of a type in turn, each
// with the version of these names: Envoy does so for endpoints. For a full-state type the last poll
// has all names, so they are no part of the subject.
type subject struct {
	url      string
	wildcard bool
	names    string
}

// Bounds of the registry.
const (
	// ownShare: one client may use one in ownShare of the bytes. That fits the largest poll unless
	// the sizes in listen were raised.
	ownShare = 8
	// pausesShown is for how many of its own pauses a client is remembered; longestShown bounds
	// that time. Clients do not announce how often they poll.
	pausesShown  = 3
	longestShown = time.Hour
	// Estimated overhead of a client and of one of its poll states besides texts, in bytes.
	clientSize, stateSize = 600, 750
)

func newPollRegistry(c *cache.Cache, least time.Duration, most int64) *pollRegistry {
	return &pollRegistry{cache: c, least: least, most: most, byID: make(map[clientID]*pollClient)}
}

// separator is put between names. It is not part of any name.
const separator = "\x00"

// begin records the arrival of a poll. The result is passed to finish.
func (r *pollRegistry) begin(q *request, t *resource.Type, now time.Time) *pollState {
	names := strings.Join(q.names, separator)
	w := subject{url: t.URL}
	if !t.FullState {
		w.wildcard, w.names = q.wildcard, names
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.byID[q.clientID]
	if p == nil {
		p = &pollClient{clientID: q.clientID, registry: r, since: now, states: make(map[subject]*pollState)}
		r.byID[q.clientID] = p
		r.addBytes(p, clientSize+int64(len(q.clientID.id)+len(q.clientID.identity)+len(q.clientID.host)))
	}
	r.addBytes(p, int64(len(q.node)+len(q.cluster)-len(p.node)-len(p.cluster)))
	p.node, p.fields, p.cluster, p.rule = q.node, q.fields, q.cluster, q.group.Rule
	v := p.states[w]
	if v == nil {
		v = &pollState{of: p, subject: w, typ: t, unsure: true, began: now, mark: markOf(q.clientID, w)}
		v.all, v.own = r.recent.PushFront(v), p.recent.PushFront(v)
		p.states[w] = v
	} else {
		v.recordPause(now)
		r.recent.MoveToFront(v.all)
		p.recent.MoveToFront(v.own)
	}
	v.open++
	v.polled, v.wildcard, v.names, v.asked = now, q.wildcard, names, len(q.names)
	v.recordRequest(q, now)
	r.updateSize(v)
	r.evict(p, now)
	return v
}

// found is the result of a poll.
type found struct {
	seen cache.Seen
	// sent means that the client was sent the content; unsure that the content cannot be compared
	// with what it has.
	sent, unsure bool
}

// finish records how a poll was answered.
func (r *pollRegistry) finish(v *pollState, t *cache.Table, f found, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.open--
	v.polled = now
	v.recordAnswer(t, f, now)
	r.updateSize(v)
	r.evict(v.of, now)
}

// addBytes and all methods below must be called with mu held, except clients.
func (r *pollRegistry) addBytes(p *pollClient, by int64) {
	p.bytes += by
	r.bytes += by
}

// updateSize updates the bytes that count for v, unless v was removed.
func (r *pollRegistry) updateSize(v *pollState) {
	if v.of.states[v.subject] != v {
		return
	}
	now := stateSize + int64(len(v.names)+len(v.subject.names)+len(v.has)+len(v.sentVersion)+len(v.newest))
	if v.nack != nil {
		now += int64(len(v.nack.Message))
	}
	r.addBytes(v.of, now-v.bytes)
	v.bytes = now
}

// evict removes what exceeds the bounds of a client or in total, and some of what has expired:
// clients skips the rest.
func (r *pollRegistry) evict(p *pollClient, now time.Time) {
	for p.bytes > r.most/ownShare && p.recent.Len() > 0 {
		r.remove(p.recent.Back().Value.(*pollState))
	}
	for last := r.recent.Back(); last != nil; last = r.recent.Back() {
		v := last.Value.(*pollState)
		if r.bytes <= r.most && !v.expired(r.least, now) {
			return
		}
		r.remove(v)
	}
}

// remove removes a poll state, and its client if it was the last one.
func (r *pollRegistry) remove(v *pollState) {
	p := v.of
	r.recent.Remove(v.all)
	p.recent.Remove(v.own)
	delete(p.states, v.subject)
	r.addBytes(p, -v.bytes)
	if len(p.states) == 0 {
		delete(r.byID, p.clientID)
		r.bytes -= p.bytes
	}
}

// clients returns the clients with recent polls, in no order.
func (r *pollRegistry) clients(now time.Time) []fanout.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.recent.Back(); e != nil; {
		v := e.Value.(*pollState)
		if e = e.Prev(); v.expired(r.least, now) {
			r.remove(v)
		}
	}
	out := make([]fanout.Client, 0, len(r.byID))
	for _, p := range r.byID {
		out = append(out, p)
	}
	return out
}
