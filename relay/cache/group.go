package cache

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/lockorder"
	"xdsrelay/relay/resource"
)

// Group is everything that belongs to one aggregation key.
type Group struct {
	// Fixed after construction.
	Key     aggregation.Key
	Node    *corev3.Node
	cache   *Cache
	private bool // see Cache.JoinPrivate
	sole    bool // private, and of a single client
	// identity is the identity that a private group belongs to, unless it is sole; see
	// Cache.JoinIdentity.
	identity string

	// Guarded by cache.mu.
	clients int
	peers   int         // clients that are other nodes
	runs    bool        // it has feeds; false while idle
	retire  *time.Timer // makes the group idle, see Cache.Leave
	hold    *time.Timer // see resumeLocked
	// peersChanged is closed when peers changes; nil unless someone waits for that.
	peersChanged chan struct{}

	streams []streamState // of fixed length; see [streamState] for what guards the fields

	restored sync.Once // see Restore

	lingering atomic.Int64 // bytes of names that linger; see mayLinger

	recorded atomic.Uint64 // updates so far; see Past.Number

	rule atomic.Pointer[string] // see Rule

	// Atomic; replaced with mu held.
	listeners atomic.Pointer[[]*listener] // see OnChange; nil: no listeners

	mu lockorder.Mutex[lockorder.Group]
	// Guarded by mu.
	tables    map[string]*Table
	order     []*Table // by the order E1, then by age
	linger    *time.Timer
	lingerAt  time.Time
	expiry    expiry
	guard     *time.Timer // see removeHeld
	guardAt   time.Time
	ended     bool
	tierHeads map[string]TierHead // by the URL of types without a table; nil for none
	// pendingRestores is the last known good of types without a table, by URL; see Revive.
	pendingRestores map[string]*pendingRestore
	holds           map[string]heldElsewhere // by type URL; nil for none
	freeze          *Freeze                  // nil: it is not frozen
	undone          *Undone                  // nil: no revision of it is undone
	governor        *Governor                // nil: no rollout releases changes
	observer        *Observer                // nil: no rollout observes changes
	settle          *time.Timer              // see judgeUndone
	settleBegan     time.Time                // zero: it does not run
}

func newGroup(c *Cache, key aggregation.Key, node *corev3.Node) *Group {
	return &Group{Key: key, Node: node, cache: c, streams: make([]streamState, len(c.cfg.Streams)), tables: make(map[string]*Table)}
}

// SetRule records the aggregation rule that the first client of the key has matched.
func (g *Group) SetRule(name string) {
	if g.rule.Load() == nil {
		one := name // only this escapes
		g.rule.CompareAndSwap(nil, &one)
	}
}

// Rule returns the aggregation rule that the first client of the key has matched, on this node or on one that
// follows it; empty if none is known.
func (g *Group) Rule() string {
	if name := g.rule.Load(); name != nil {
		return *name
	}
	return ""
}

// Table returns the group's table for t, which is made on first use.
func (g *Group) Table(t *resource.Type) *Table {
	g.mu.Lock()
	defer g.mu.Unlock()
	if table := g.tables[t.URL]; table != nil {
		return table
	}
	table := newTable(g, t)
	g.adoptHeadLocked(table)
	table.core.adopt(g.pendingRestores[t.URL])
	delete(g.pendingRestores, t.URL)
	if set := g.gatesLocked(); set != (gateSet{}) {
		table.core.close(set)
		table.core.refuse(g.undone)
	}
	table.core.observe(g.observer)
	table.guard() // other goroutines find it from now on
	g.tables[t.URL] = table
	i := slices.IndexFunc(g.order, func(o *Table) bool { return o.Type.Order > t.Order })
	if i < 0 {
		i = len(g.order)
	}
	g.order = slices.Insert(slices.Clone(g.order), i, table)
	return table
}

// HasRoom reports whether a client may ask for t: there is a table for it, or there are fewer than
// most tables. 0 means any number. About a dozen types are in use, but clients may invent type
// URLs. Concurrent clients may exceed the bound a little.
func (g *Group) HasRoom(t *resource.Type, most int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return most <= 0 || g.tables[t.URL] != nil || len(g.tables) < most || resource.IsKnown(t.URL)
}

func (g *Group) lookup(t *resource.Type) *Table {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tables[t.URL]
}

// Tables returns the group's tables in the order E1. The slice must not be changed.
func (g *Group) Tables() []*Table {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.order
}

// resumeLocked withholds the state of a formerly idle key from clients until the control planes
// have answered, cannot be reached, or the hold time has passed: the state may be hours old, and
// the control planes are likely to be reachable. cache.mu must be held.
func (g *Group) resumeLocked() {
	hold := g.cache.cfg.Hold
	if hold <= 0 {
		return
	}
	for _, t := range g.Tables() {
		t.mu.Lock()
		for i := range t.core.streams {
			stream := &t.core.streams[i]
			if known := t.core.store.Gen() > 0 || t.core.demand.Stream(i).HasAnswered(); !known { // also knowledge that names are absent
				continue
			}
			t.core.effect(i, stream.confidence.Resumed(t.core.store.Sum(i).Live > 0), nil)
			if t.core.demand.Stream(i).Wanted() > 0 {
				stream.confidence.HoldBegan()
			}
		}
		t.mu.Unlock()
	}
	g.holdFor(hold)
}

// release ends the waits of clients for a stream whose control plane cannot be reached: the hold of
// resumeLocked, and answers that may not arrive soon.
func (g *Group) release(by int) { g.endWaits(by, (*core).release) }

// unholdAll ends the hold of resumeLocked on all streams because its time has passed, and all waits for those
// that have been down since before the process slept.
func (g *Group) unholdAll() {
	for by := range g.streams {
		end := (*core).unhold
		if g.isDownUnchanged(by) {
			end = (*core).release
		}
		g.endWaits(by, end)
	}
}

// isDownUnchanged reports whether a stream has been down since before the process slept, and other nodes have
// been asked.
func (g *Group) isDownUnchanged(stream int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := &g.streams[stream].link
	return l.IsDown() && !l.IsCutOff() && !l.Others.Awaited()
}

func (g *Group) endWaits(by int, end func(*core, int, map[*Subscription]struct{})) {
	woken := make(map[*Subscription]struct{})
	for _, t := range g.Tables() {
		t.mu.Lock()
		end(&t.core, by, woken)
		for s := range t.core.waiting {
			if t.core.waitsFor(s)&(1<<by) != 0 {
				woken[s] = struct{}{}
			}
		}
		t.mu.Unlock()
	}
	g.cache.wake(woken)
}

// lingerFrom schedules a check of the demand at at. It may be called with a table's mu held.
func (g *Group) lingerFrom(at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended || !g.lingerAt.IsZero() && !g.lingerAt.After(at) {
		return
	}
	g.armLocked(at)
}

// armLocked sets the linger timer a little late, so that one check covers the many names that are
// left within a short time. g.mu must be held.
func (g *Group) armLocked(at time.Time) {
	g.lingerAt = at
	wait := time.Until(at) + g.lingers()/16
	if g.linger == nil {
		g.linger = time.AfterFunc(wait, g.expire)
	} else {
		g.linger.Reset(wait)
	}
}

// expiry is how many runs of [Group.expire] are due, of which there is one at a time.
type expiry uint8

const (
	expiryIdle  expiry = iota
	expiryRuns         // it runs
	expiryAgain        // it runs, and was called meanwhile: it runs once more
)

// expire ends the demand whose linger time has passed. While the key has no clients at all it keeps
// its whole demand, because that is what a returning client wants.
func (g *Group) expire() {
	g.mu.Lock()
	g.lingerAt = time.Time{}
	runs := g.expiry != expiryIdle
	g.expiry = min(g.expiry+1, expiryAgain)
	g.mu.Unlock()
	if runs {
		return
	}
	for again := true; again; {
		g.expireOnce()
		g.mu.Lock()
		g.expiry--
		again = g.expiry == expiryRuns
		g.mu.Unlock()
	}
}

func (g *Group) expireOnce() {
	if !g.cache.inUse(g) {
		return // checked again when a client joins
	}
	now := time.Now()
	next := g.dropRestores(now)
	soon := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	woken := make(map[*Subscription]struct{})
	for _, t := range g.Tables() {
		soon(t.expire(now, woken))
		t.mu.Lock()
		soon(t.core.dropRestore(now))
		t.core.recheckHead(woken)
		t.unlockAndSignal()
	}
	g.changed()
	g.cache.wake(woken)
	g.cache.stopUnwanted(g)
	if !next.IsZero() {
		g.lingerFrom(next)
	}
	g.pendingChanged() // what nobody asks for any more is not pending
}

// bytes estimates the memory of the group.
func (g *Group) bytes() int64 {
	n := int64(groupSize)
	for _, t := range g.Tables() {
		t.mu.RLock()
		n += tableSize + t.core.bytes()
		if t.core.pendingRestore != nil {
			n += t.core.pendingRestore.bytes()
		}
		t.mu.RUnlock()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.pendingRestores {
		n += r.bytes()
	}
	return n
}

// over reports whether the group has ended, so that no timer may be set. It may be called with a
// table's mu held.
func (g *Group) over() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended
}

// endLocked stops the group's timers permanently. cache.mu must be held.
func (g *Group) endLocked() {
	g.stopTimersLocked()
	g.cache.lingering.Add(-g.lingering.Swap(0))
	for _, t := range g.Tables() {
		t.stopTimers()
		t.forgetContents()
	}
}

// stopTimersLocked must be called with cache.mu held.
func (g *Group) stopTimersLocked() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	for _, t := range []*time.Timer{g.retire, g.hold, g.linger, g.guard, g.settle} {
		if t != nil {
			t.Stop()
		}
	}
}
