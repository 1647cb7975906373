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

// roster remembers who has polled a short while ago, to show how these clients stand
// (K20). No poll is answered by it (H5), and it makes no demand. What it holds is
// bounded in bytes, of one client and of all: what was polled for longest ago goes
// first, so a client that takes a new name for each poll costs others nothing but
// that they are not shown until they poll again.
type roster struct {
	// Fixed after construction.
	cache *cache.Cache
	least time.Duration // for which everybody is remembered
	most  int64         // bytes

	mu sync.Mutex
	// Guarded by mu.
	visitors map[who]*visitor
	recent   list.List // of *visits, the last one first
	bytes    int64
}

// who is a client, as far as polls can tell one from another: it has no connection of
// its own. Who has proved an identity is another one than who only says the same id.
type who struct {
	id       string
	key      aggregation.Key
	identity string
	host     string // that it comes from
}

// visitor is a client that polls.
type visitor struct {
	// Fixed after construction.
	who
	roster *roster
	since  time.Time

	// Guarded by the roster's mu.
	node, cluster, rule string
	visits              map[what]*visits
	recent              list.List // of *visits, the last one first
	bytes               int64     // all of it
}

// what a poll is for. One client may poll for different names of a type in turn, each
// time with the version of these: Envoy does so for each endpoint set. Of a full state
// the last poll says all, so its names make no difference.
type what struct {
	url      string
	wildcard bool
	names    string
}

// Bounds of what is remembered.
const (
	// ownShare is the part of the bytes that one client may take. It has room for the
	// largest poll unless listen sizes were raised.
	ownShare = 8
	// pausesShown is for how many of its own pauses a client is remembered, and
	// longestShown bounds that: clients do not say how often they poll.
	pausesShown  = 3
	longestShown = time.Hour
	// What a client and one of its kinds of polls take beside texts, roughly.
	visitorSize, visitsSize = 600, 750
)

func newRoster(c *cache.Cache, least time.Duration, most int64) *roster {
	return &roster{cache: c, least: least, most: most, visitors: make(map[who]*visitor)}
}

// separator stands between names, in which it is no use.
const separator = "\x00"

// begins notes that a poll has come. What it returns is given to ends.
func (r *roster) begins(q *request, t *resource.Type, now time.Time) *visits {
	names := strings.Join(q.names, separator)
	w := what{url: t.URL}
	if !t.FullState {
		w.wildcard, w.names = q.wildcard, names
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.visitors[q.who]
	if p == nil {
		p = &visitor{who: q.who, roster: r, since: now, visits: make(map[what]*visits)}
		r.visitors[q.who] = p
		r.grow(p, visitorSize+int64(len(q.who.id)+len(q.who.identity)+len(q.who.host)))
	}
	r.grow(p, int64(len(q.node)+len(q.cluster)-len(p.node)-len(p.cluster)))
	p.node, p.cluster, p.rule = q.node, q.cluster, q.group.Rule
	v := p.visits[w]
	if v == nil {
		v = &visits{of: p, what: w, typ: t, unsure: true, began: now, mark: markOf(q.who, w)}
		v.all, v.own = r.recent.PushFront(v), p.recent.PushFront(v)
		p.visits[w] = v
	} else {
		v.paused(now)
		r.recent.MoveToFront(v.all)
		p.recent.MoveToFront(v.own)
	}
	v.open++
	v.polled, v.wildcard, v.names, v.asked = now, q.wildcard, names, len(q.names)
	v.quotes(q, now)
	r.weigh(v)
	r.trim(p, now)
	return v
}

// found is what a poll came to.
type found struct {
	seen cache.Seen
	// told says that the client was sent what was seen, unsure that it cannot be compared
	// with what it has.
	told, unsure bool
}

// ends notes how a poll was answered.
func (r *roster) ends(v *visits, t *cache.Table, f found, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.open--
	v.polled = now
	v.answered(t, f, now)
	r.weigh(v)
	r.trim(v.of, now)
}

// grow must be called with mu held, as must all below.
func (r *roster) grow(p *visitor, by int64) {
	p.bytes += by
	r.bytes += by
}

// weigh counts what v holds now, unless it was forgotten meanwhile.
func (r *roster) weigh(v *visits) {
	if v.of.visits[v.what] != v {
		return
	}
	now := visitsSize + int64(len(v.names)+len(v.what.names)+len(v.has)+len(v.told)+len(v.newest))
	if v.nack != nil {
		now += int64(len(v.nack.Message))
	}
	r.grow(v.of, now-v.bytes)
	v.bytes = now
}

// trim forgets what is too much, of a client and altogether, and some of what is too
// old: the rest of that is left out where it would be shown.
func (r *roster) trim(p *visitor, now time.Time) {
	for p.bytes > r.most/ownShare && p.recent.Len() > 0 {
		r.forget(p.recent.Back().Value.(*visits))
	}
	for last := r.recent.Back(); last != nil; last = r.recent.Back() {
		v := last.Value.(*visits)
		if r.bytes <= r.most && !v.isOver(r.least, now) {
			return
		}
		r.forget(v)
	}
}

// forget lets go of polls, and with the last of them of their client.
func (r *roster) forget(v *visits) {
	p := v.of
	r.recent.Remove(v.all)
	p.recent.Remove(v.own)
	delete(p.visits, v.what)
	r.grow(p, -v.bytes)
	if len(p.visits) == 0 {
		delete(r.visitors, p.who)
		r.bytes -= p.bytes
	}
}

// clients are those who have polled lately, in no order.
func (r *roster) clients(now time.Time) []fanout.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.recent.Back(); e != nil; {
		v := e.Value.(*visits)
		if e = e.Prev(); v.isOver(r.least, now) {
			r.forget(v)
		}
	}
	out := make([]fanout.Client, 0, len(r.visitors))
	for _, p := range r.visitors {
		out = append(out, p)
	}
	return out
}
