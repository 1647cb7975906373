package cache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
)

// Group is everything that belongs to one aggregation key.
type Group struct {
	// Fixed after construction.
	Key   aggregation.Key
	Node  *corev3.Node
	cache *Cache

	// Guarded by cache.mu.
	clients int
	feed    *Feed       // nil while idle
	retire  *time.Timer // makes the group idle, see Cache.Leave
	hold    *time.Timer // see resumeLocked

	mu sync.Mutex
	// Guarded by mu.
	tables   map[string]*Table
	order    []*Table // by the order E1, then by age
	upstream Upstream
	listener chan<- struct{} // the feed's news
	linger   *time.Timer
	lingerAt time.Time
	ended    bool
}

// Upstream is the state of a group's stream to its origin.
type Upstream struct {
	// Connected says that a stream is established; Since when this state has
	// lasted.
	Connected bool
	Since     time.Time
	// Err is why there is no stream; nil while the first attempt is under way.
	Err error
}

var errIdle = errors.New("the key has had no clients for the linger time")

// Table returns the group's table for t, which is made on first use.
func (g *Group) Table(t *resource.Type) *Table {
	g.mu.Lock()
	defer g.mu.Unlock()
	if table := g.tables[t.URL]; table != nil {
		return table
	}
	table := newTable(g, t)
	g.tables[t.URL] = table
	i := slices.IndexFunc(g.order, func(o *Table) bool { return o.Type.Order > t.Order })
	if i < 0 {
		i = len(g.order)
	}
	g.order = slices.Insert(slices.Clone(g.order), i, table)
	return table
}

// maxTables bounds the tables of a group; there are about a dozen types in use,
// but clients may invent type URLs.
const maxTables = 256

// HasRoom reports whether a client may ask for t: there is a table for it, or
// not yet too many others. Clients that ask at the same moment may go a little
// beyond.
func (g *Group) HasRoom(t *resource.Type) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tables[t.URL] != nil || len(g.tables) < maxTables || resource.IsKnown(t.URL)
}

func (g *Group) lookup(t *resource.Type) *Table {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tables[t.URL]
}

// Tables returns the group's tables in the order E1. The slice must not be
// changed.
func (g *Group) Tables() []*Table {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.order
}

// Upstream returns the state of the stream to the origin.
func (g *Group) Upstream() Upstream {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.upstream
}

func (g *Group) setUpstream(f *Feed, err error) {
	g.mu.Lock()
	if f.ctx.Err() != nil { // what ended it says more
		g.mu.Unlock()
		return
	}
	if g.upstream.Connected != (err == nil) || g.upstream.Since.IsZero() {
		g.upstream.Since = time.Now()
	}
	g.upstream.Connected, g.upstream.Err = err == nil, err
	g.mu.Unlock()
	if err != nil {
		g.release()
	}
}

// connected reports whether there is a stream to the origin, or hope for one.
func (g *Group) connected() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.upstream.Err == nil
}

// resume keeps the state of a key that was idle from clients until the origin
// has answered, cannot be reached, or the hold time is over: it may be hours
// old, and the origin is likely to be there. cache.mu must be held.
func (g *Group) resumeLocked() {
	hold := g.cache.cfg.Hold
	if hold <= 0 {
		return
	}
	for _, t := range g.Tables() {
		t.mu.Lock()
		t.held = t.gen > 0
		t.mu.Unlock()
	}
	if g.hold == nil {
		g.hold = time.AfterFunc(hold, g.release)
	} else {
		g.hold.Reset(hold)
	}
}

// release ends the hold of resumeLocked, and wakes those who wait for an answer that
// may not come soon.
func (g *Group) release() {
	woken := make(map[*Subscription]struct{})
	for _, t := range g.Tables() {
		t.mu.Lock()
		t.releaseLocked(woken)
		for s := range t.waiting {
			woken[s] = struct{}{}
		}
		t.mu.Unlock()
	}
	g.cache.wake(woken)
}

// signalDemand tells the feed that there is something to ask.
func (g *Group) signalDemand() {
	g.mu.Lock()
	news := g.listener
	g.mu.Unlock()
	select {
	case news <- struct{}{}: // nil while idle
	default:
	}
}

// lingerFrom makes sure that the demand is looked at when at has come.
// It may be called with a table's mu held.
func (g *Group) lingerFrom(at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended || !g.lingerAt.IsZero() && !g.lingerAt.After(at) {
		return
	}
	g.armLocked(at)
}

// armLocked sets the linger timer a little late, so that one look serves the
// many names that are left within a short time. g.mu must be held.
func (g *Group) armLocked(at time.Time) {
	g.lingerAt = at
	wait := time.Until(at) + g.cache.cfg.Linger/16
	if g.linger == nil {
		g.linger = time.AfterFunc(wait, g.expire)
	} else {
		g.linger.Reset(wait)
	}
}

// expire ends demand whose linger time is over. While the key has no clients
// at all its demand is kept whole: it is what a returning client wants.
func (g *Group) expire() {
	g.mu.Lock()
	g.lingerAt = time.Time{}
	g.mu.Unlock()
	if !g.cache.inUse(g) {
		return // looked at again when a client joins
	}
	now, next := time.Now(), time.Time{}
	for _, t := range g.Tables() {
		t.mu.Lock()
		at := t.expireLocked(now)
		t.unlockAndSignal()
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if !next.IsZero() {
		g.lingerFrom(next)
	}
}

// bytes is roughly what the group holds.
func (g *Group) bytes() int64 {
	n := int64(groupSize)
	for _, t := range g.Tables() {
		t.mu.RLock()
		n += tableSize + t.bytes
		t.mu.RUnlock()
	}
	return n
}

// startLocked starts a feed. cache.mu must be held.
func (g *Group) startLocked() {
	ctx, end := context.WithCancelCause(g.cache.ctx)
	f := &Feed{group: g, news: make(chan struct{}, 1), ctx: ctx, end: end}
	g.feed = f
	g.mu.Lock()
	g.listener = f.news
	g.upstream = Upstream{Since: time.Now()}
	g.mu.Unlock()
	g.cache.feeds.Go(func() { g.cache.cfg.Run(ctx, f) })
}

// stopLocked ends the feed. cache.mu must be held.
func (g *Group) stopLocked(cause error) {
	if g.feed == nil {
		return
	}
	g.feed.end(cause)
	g.feed = nil
	g.mu.Lock()
	g.listener = nil
	g.upstream = Upstream{Since: time.Now(), Err: cause}
	g.mu.Unlock()
}

// endLocked stops the group's timers for good. cache.mu must be held.
func (g *Group) endLocked() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	for _, t := range []*time.Timer{g.retire, g.hold, g.linger} {
		if t != nil {
			t.Stop()
		}
	}
}
