package cache

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache/pool"
	"xdsrelay/relay/lockorder"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/trace"
)

// Config configures a Cache. It is not changed after [New].
type Config struct {
	// Run keeps a feed in sync with its control plane until ctx ends. It is called on its own
	// goroutine for each stream of a key with clients: for the first stream at once, and for others
	// when there is interest in their names. Required.
	Run func(ctx context.Context, f *Feed)
	// Tracer traces the updates that are applied; nil traces none.
	Tracer *trace.Tracer
	// Streams are the upstream streams of each key, at most 64. Default: a single one.
	Streams []OriginStream
	// Route returns which stream serves a name of a type, "*" for the wildcard: an index into
	// [Config.Streams], or [Nobody]. It must always give the same answer. Default: the first stream
	// serves everything.
	Route func(t *resource.Type, name string) int
	// Wake is called with the subscriptions that may have news for their watchers. It must not
	// block. Required.
	Wake func(subs []*Subscription)
	// Linger is how long names and keys without clients stay subscribed (K10). Default 60 s; a
	// negative value disables it.
	Linger time.Duration
	// Lingering bounds the names of a type and key that linger at a time; others are dropped at
	// once. Default 200,000.
	Lingering int
	// LingeringBytes bounds the memory of all lingering names together. A key gets at most a
	// quarter of what is free. Default 128 MiB.
	LingeringBytes int64
	// IdleBytes bounds the memory of all keys without clients. Default 256 MiB; with a negative
	// value idle keys are dropped at once.
	IdleBytes int64
	// Tombstones is the minimum number of removals that a table remembers. A client that misses
	// more while it is behind must reconnect. Default 1024.
	Tombstones int
	// Hold bounds how long a key that was idle asks its control plane before it serves its old
	// content. Default 1 s; a negative value disables it.
	Hold time.Duration
	// HeadWait bounds how long a table counts as behind after other nodes have reported newer
	// content; see [Group.ObserveHead]. 0 disables it, for a node without a tier.
	HeadWait time.Duration
	// MaxRemovalPercent is the share of a full-state set that one answer may remove. Removals
	// beyond it, and the removal of the whole set, are held back for RemovalHold (K16). 0 allows
	// any share and is the default.
	MaxRemovalPercent int
	// RemovalHold bounds how long removals are held back. 0 means until [Group.Release].
	RemovalHold time.Duration
	// History is how many updates a table remembers, in about 200 bytes each and the first names that
	// each changed; see [Table.History].
	// Default 20; negative means none.
	History int
	// HistoryBytes bounds the memory of the previous contents of all keys, of which the newest are
	// kept, as far as History reaches; see [Table.Compare]. 0 keeps none and is the default.
	HistoryBytes int64
	// Alarm is called when an answer removes a large share of a full-state set, whether the
	// removals are held back or, without a removal guard, applied. It must not block. Default: no
	// call.
	Alarm func(MassRemoval)
	// HoldEnded is called when held removals of a key took effect because their hold has ended. It
	// must not block. Default: no call.
	HoldEnded func(g *Group, removals int)
	// UndoEnded is called when a key is no longer held at an earlier revision, because the control
	// plane has sent something else; clients get changes resources of that. It must not block. Default:
	// no call.
	UndoEnded func(g *Group, changes int)
	// NamesNear is called when the names of a key approach their bound (see
	// [OriginStream.MaxNames]). It must not block. Default: no call.
	NamesNear func(NamesNear)
}

func (c *Config) setDefaults() error {
	if c.Run == nil || c.Wake == nil {
		return errors.New("cache: Run and Wake are required")
	}
	or := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
		*d = max(*d, 0)
	}
	or(&c.Linger, time.Minute)
	or(&c.Hold, time.Second)
	if c.IdleBytes == 0 {
		c.IdleBytes = 256 << 20
	}
	if c.Lingering <= 0 {
		c.Lingering = 200_000
	}
	if c.LingeringBytes <= 0 {
		c.LingeringBytes = 128 << 20
	}
	if c.Tombstones <= 0 {
		c.Tombstones = 1024
	}
	if c.History == 0 {
		c.History = 20
	}
	if c.Alarm == nil {
		c.Alarm = func(MassRemoval) {}
	}
	if c.HoldEnded == nil {
		c.HoldEnded = func(*Group, int) {}
	}
	if c.UndoEnded == nil {
		c.UndoEnded = func(*Group, int) {}
	}
	if c.NamesNear == nil {
		c.NamesNear = func(NamesNear) {}
	}
	return c.checkStreams()
}

// Cache holds the groups of all keys. All methods are safe for concurrent use.
type Cache struct {
	// Fixed after construction.
	cfg   Config
	step  int // names that are edited per lock of a table; see Table.edit
	ctx   context.Context
	close context.CancelCauseFunc
	feeds sync.WaitGroup
	made  time.Time
	beat  aliveness // see Cache.Beat
	pool  pool.Pool // of the resources of all keys
	past  *contentStore

	lastID       atomic.Uint64 // see Table.nextID
	held         atomic.Uint64 // see RemovalsHeld
	massRemovals atomic.Uint64 // see MassRemovals
	lingering    atomic.Int64  // of all groups; see Group.mayLinger
	passages     passages      // see Passed

	mu lockorder.Mutex[lockorder.Cache]
	// Guarded by mu.
	groups    map[aggregation.Key]*Group
	idle      *simplelru.LRU[aggregation.Key, *Group] // groups without clients and feeds
	idleBytes int64
	sizes     map[*Group]int64 // what idleBytes counts for each idle group
	privates  map[*Group]struct{}
	// identities holds those of privates that clients find by their identity.
	identities map[owner]*Group
	running    int // groups with feeds, including private ones
	freezes    freezes
	confirm    *time.Timer // calls confirmAwake; nil if the process never slept
	closed     bool
}

// ErrClosed is the cause with which feeds end when the cache is closed.
var ErrClosed = errors.New("the relay is shutting down")

// New makes a cache. It returns an error if cfg lacks a required field.
func New(cfg Config) (*Cache, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	idle, err := simplelru.NewLRU[aggregation.Key, *Group](math.MaxInt, nil)
	if err != nil {
		return nil, err
	}
	c := &Cache{cfg: cfg, step: namesPerStep, groups: make(map[aggregation.Key]*Group), idle: idle, sizes: make(map[*Group]int64), privates: make(map[*Group]struct{}), identities: make(map[owner]*Group), made: time.Now(), past: newContentStore(cfg.HistoryBytes)}
	c.ctx, c.close = context.WithCancelCause(context.Background())
	return c, nil
}

// Join adds a client to the group of key. The first Join makes the group, with node as its identity
// towards the control plane. Each Join needs one [Cache.Leave].
func (c *Cache) Join(key aggregation.Key, node *corev3.Node) *Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[key]
	if g == nil {
		g = c.addLocked(key, node)
	}
	g.clients++
	if g.clients > 1 {
		return g
	}
	if g.retire != nil {
		g.retire.Stop()
	}
	if !g.runs && !c.closed {
		if c.idle.Remove(key) {
			c.idleBytes -= c.sizes[g]
			delete(c.sizes, g)
			g.resumeLocked()
		}
		g.startLocked()
	}
	g.lingerFrom(time.Now().Add(c.cfg.Linger)) // names may have lingered while the key had no clients
	return g
}

// addLocked makes the group of a key. c.mu must be held.
func (c *Cache) addLocked(key aggregation.Key, node *corev3.Node) *Group {
	g := newGroup(c, key, node)
	g.freeze, g.undone = c.freezes.of(key), c.freezes.undone[key]
	c.groups[key] = g
	if len(c.groups) > 1 {
		c.pool.Use()
	}
	return g
}

// Leave ends a client's membership. After the last client the group keeps its feed for the linger
// time and then becomes idle (K10).
func (c *Cache) Leave(g *Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.clients--
	if g.clients > 0 || c.closed {
		return
	}
	if g.private {
		g.dropLocked()
		return
	}
	if g.retire == nil {
		g.retire = time.AfterFunc(c.cfg.Linger, func() { c.retire(g) })
	} else {
		g.retire.Reset(c.cfg.Linger)
	}
}

// retire makes g idle: its feeds end, its state stays while there is room.
func (c *Cache) retire(g *Group) {
	c.mu.Lock()
	if g.clients > 0 || !g.runs || c.closed {
		c.mu.Unlock()
		return
	}
	g.stopLocked(errIdle)
	c.idle.Add(g.Key, g)
	c.sizes[g] = 0 // until the rest is measured
	c.mu.Unlock()
	still := func(f func()) bool { // other goroutines get the lock between two of these
		c.mu.Lock()
		defer c.mu.Unlock()
		_, idle := c.sizes[g]
		if idle = idle && !c.closed; idle {
			f()
		}
		return idle
	}
	for _, t := range g.Tables() {
		t.forgetUnserved(still)
	}
	still(func() { c.measureIdleLocked(g) })
}

// measureIdleLocked counts the memory of an idle group. c.mu must be held.
func (c *Cache) measureIdleLocked(g *Group) {
	c.idleBytes -= c.sizes[g]
	c.sizes[g] = g.bytes()
	c.idleBytes += c.sizes[g]
	c.evictLocked(c.cfg.IdleBytes)
}

// HasRoom reports whether a client of key may be accepted: the key already has upstream streams, or
// fewer than most other keys do, including private groups. 0 means any number. Concurrent clients
// may exceed the bound a little.
func (c *Cache) HasRoom(key aggregation.Key, most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if most <= 0 || c.running < most {
		return true
	}
	g := c.groups[key]
	return g != nil && g.runs
}

// DropIdle evicts keys without clients, except those that still linger.
func (c *Cache) DropIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evictLocked(0)
}

// evictLocked evicts idle keys, least recently used first, until the rest takes at most most bytes.
// c.mu must be held.
func (c *Cache) evictLocked(most int64) {
	for c.idleBytes > most {
		_, old, ok := c.idle.RemoveOldest()
		if !ok {
			return
		}
		c.idleBytes -= c.sizes[old]
		delete(c.sizes, old)
		delete(c.groups, old.Key)
		old.endLocked()
	}
}

func (c *Cache) inUse(g *Group) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return g.clients > 0 && !c.closed
}

// wake passes on the subscriptions that have watchers.
func (c *Cache) wake(woken map[*Subscription]struct{}) {
	if len(woken) == 0 {
		return
	}
	subs := make([]*Subscription, 0, len(woken))
	for s := range woken {
		subs = append(subs, s)
	}
	c.cfg.Wake(subs)
}

// Groups returns the groups of all keys in no order, including idle ones and without private ones.
func (c *Cache) Groups() []*Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*Group, 0, len(c.groups))
	for _, g := range c.groups {
		out = append(out, g)
	}
	return out
}

// Active returns the groups that have upstream streams in no order, including private ones.
func (c *Cache) Active() []*Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Collect(maps.Keys(c.privates))
	for _, g := range c.groups {
		if g.runs {
			out = append(out, g)
		}
	}
	return out
}

// Close ends all feeds and waits for them. The state stays readable.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	if c.confirm != nil {
		c.confirm.Stop()
	}
	for _, g := range c.groups {
		g.stopLocked(ErrClosed)
		g.endLocked()
	}
	for g := range c.privates {
		g.stopLocked(ErrClosed)
		g.endLocked()
	}
	c.mu.Unlock()
	c.close(ErrClosed)
	c.feeds.Wait()
}
