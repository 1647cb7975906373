package tier

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/load"
	"xdsrelay/relay/lockorder"
	"xdsrelay/shard"
)

// Origin is the control plane, or the directory, that serves the keys that this node owns, and all
// others while their owners cannot be asked.
type Origin struct {
	// Run keeps a feed up to date from its origin until ctx ends. Required.
	Run func(ctx context.Context, f *cache.Feed)
	// Report sends the origin what clients report until ctx ends, and then the rest. Nil where
	// no load reports are accepted.
	Report func(ctx context.Context, o *load.Outlet)
	// Reach returns whether any key needs the origin (the first, if there are several), and
	// whether there is a connection to it. Nil for an origin that is always reachable.
	// AwaitReady connects even if no key needs the origin.
	Reach      func() (wanted, ready bool)
	AwaitReady func(ctx context.Context) error
}

// Config configures a Tier. It does not change after [New].
type Config struct {
	// Members are the nodes of the tier. Required.
	Members shard.Members
	// Origin is the source of the keys that this node owns. Required.
	Origin Origin
	// Legs are the upstream streams of each key, in the order of [cache.Feed.Stream].
	Legs []cache.OriginStream
	// Peers are the connections to the other nodes; nil for a node that is never in a tier.
	Peers *Peers
	// Restore is called for a key that is new to this node or was idle, before the first
	// request for it. It should return soon. Nil restores nothing.
	Restore func(ctx context.Context, g *cache.Group)
	// Kept returns the last known good state of a key, if this node can read it. It counts like
	// content that another node holds. Nil means none.
	Kept func(ctx context.Context, key string) ([]cache.Snapshot, error)
	// Held returns what this node holds of a key, in memory or on its own disk, for nodes that
	// lack it, and the Node that represents the key upstream, if it is known. Nil means that
	// other nodes get nothing.
	Held func(ctx context.Context, key string) (*corev3.Node, []cache.Snapshot)
	// Group returns the group of a key, which may be idle, or nil if there is none. A nil Group
	// means that other nodes are answered as if there were no groups.
	Group func(key aggregation.Key) *cache.Group
	// PeersProven means that only nodes of the tier can ask this one: its peer port requires a token
	// or certificates. Only then does it fetch content from nodes that are not members.
	PeersProven bool
	// Adopt keeps what another node, which ends, held of a key. Nil keeps nothing.
	Adopt func(key aggregation.Key, node *corev3.Node, held []cache.Snapshot)
	// Own are hooks, which are called when this node begins to stream a key from the origin as its
	// owner. When that ends, the last hook ends first, and the one before when that has ended: what
	// hooks do at the end they do while the key is still owned. The hooks of a key are called after
	// those before have ended. Private groups have no owner.
	Own []Hook
	// Advance are hooks like Own. They are called while this node streams a key from the origin
	// because it cannot reach the owner.
	Advance []Hook
	// Alone are hooks like Own. They are called when this node has streamed a key from the origin
	// for [aloneFor] because it cannot reach the owner.
	Alone []Hook
	// OwnerTimeout is how long the owner of a key may be unreachable until this node asks the
	// origin itself. Default 2 s.
	OwnerTimeout time.Duration
	// Lease is for how long this node knows who the members are without hearing of them; see
	// [shard.Members.Heard]. Default 10 s.
	Lease time.Duration
	// Clock is the time of day in what other nodes are answered. Nil means the machine's.
	Clock shard.Clock
	// Logger gets events; nil means none.
	Logger *slog.Logger
}

// Tier is one node's part of a tier. All methods are safe for concurrent use.
type Tier struct {
	// Fixed after construction.
	cfg   Config
	close context.CancelFunc
	tasks sync.WaitGroup

	keys     atomic.Int64 // keepers that run now
	handlers handlers
	cutSince atomic.Pointer[time.Time] // nil while the origin is not known to be unreachable
	searches chan struct{}             // has a token for each key that other nodes are asked about

	mu lockorder.Mutex[lockorder.Tier]
	// Guarded by mu.
	status  shard.Status                    // the last one that was announced
	unasked map[string][]string             // by key: nodes that could not be asked for missing content
	keepers map[string]map[*keeper]struct{} // by key: other nodes ask for many keys at once
}

// New makes a tier and starts the goroutines that serve all keys. It fails if cfg lacks a required
// field.
func New(cfg Config) (*Tier, error) {
	if cfg.Members == nil || cfg.Origin.Run == nil {
		return nil, errors.New("tier: Members and Origin.Run are required")
	}
	if cfg.OwnerTimeout <= 0 {
		cfg.OwnerTimeout = 2 * time.Second
	}
	if cfg.Lease <= 0 {
		cfg.Lease = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &Tier{cfg: cfg, close: cancel, keepers: make(map[string]map[*keeper]struct{}), searches: make(chan struct{}, searching), unasked: make(map[string][]string)}
	t.Handle(statusPath, func(context.Context, url.Values) (any, error) { return t.Self().Status, nil })
	t.Handle(freshPath, t.answerFresh, paramKey, paramLeg, paramNode)
	t.Handle(removedPath, t.answerRemoved, paramKey, paramLeg, paramRemoved)
	t.Handle(heldPath, t.answerHeld, paramKey, paramHave)
	t.Handle(adoptPath, t.answerAdopt, paramKey, paramFrom, paramAt)
	if cfg.Peers != nil {
		t.tasks.Go(func() { t.forget(ctx) })
		if cfg.Origin.Reach != nil {
			t.Announce(func(s *shard.Status) { s.Cold = true })
			t.tasks.Go(func() { t.warm(ctx) })
			t.tasks.Go(func() { t.watchOrigin(ctx) })
		}
	}
	return t, nil
}

// Close ends the goroutines that New started. It ends neither the membership nor the goroutines of
// single keys: their contexts do that.
func (t *Tier) Close() {
	t.close()
	t.tasks.Wait()
}

// Self is this node.
func (t *Tier) Self() shard.Member { return t.cfg.Members.Self() }

// IsSelf reports whether a member is this node. Another node that started later may have taken over
// the name: it is not this one, unless it has this node's address, where it could not be reached.
func (t *Tier) IsSelf(m shard.Member) bool {
	self := t.Self()
	return m.Name == self.Name && (m.Incarnation == self.Incarnation || m.Peer == self.Peer)
}

// Members are the nodes of the tier.
func (t *Tier) Members() shard.Members { return t.cfg.Members }

// Owner returns the node that owns a key in this node's view; false means that there is none.
func (t *Tier) Owner(key string) (shard.Member, bool) { return t.cfg.Members.View().Owner(key) }

// Announce changes the status that this node publishes to the other members.
func (t *Tier) Announce(change func(*shard.Status)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.status
	if change(&t.status); t.status != before {
		t.cfg.Members.Announce(t.status)
	}
}

// Status returns the status that this node published last.
func (t *Tier) Status() shard.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// Run keeps a feed up to date until ctx ends: from the origin if this node owns the key, and
// otherwise from the owner. It is a [cache.Config.Run].
func (t *Tier) Run(ctx context.Context, f *cache.Feed) {
	g := f.Group()
	if g.Private() {
		t.cfg.Origin.Run(ctx, f)
		return
	}
	first := f.Stream() == 0 // it does what is needed once per key
	if first && t.cfg.Restore != nil {
		t.cfg.Restore(ctx, g)
	}
	k := &keeper{
		tier: t, news: make(chan struct{}, 1), key: string(f.Key()), leg: t.legName(f.Stream()), peers: g.Peers,
		origin: func(ctx context.Context) { t.cfg.Origin.Run(ctx, f) }, feed: f,
		follow: func(ctx context.Context, k *keeper, p *peer) {
			k.shareRemoved(ctx, p)
			f.Follows()
			p.follow(ctx, f, k)
		},
	}
	if first {
		k.hooks = hooks{cfg: &t.cfg, group: g}
	}
	if t.cfg.Peers != nil {
		f.AwaitOthers()
		searching := startJob(ctx, func(ctx context.Context) { t.keepSearching(ctx, f) })
		defer searching.stop()
	}
	t.keep(ctx, k)
}

// Report sends what o's clients report until ctx ends: to the origin if this node owns the key, and
// otherwise to the owner. It is a [load.Config.Run].
func (t *Tier) Report(ctx context.Context, o *load.Outlet) {
	t.keep(ctx, &keeper{
		tier: t, news: make(chan struct{}, 1), key: string(o.Key()), leg: loadLeg, peers: o.Peers,
		origin: func(ctx context.Context) { t.cfg.Origin.Report(ctx, o) },
		follow: func(ctx context.Context, _ *keeper, p *peer) { p.plane.Report(ctx, o) },
	})
}

// loadLeg is the name of the load reports among the legs of a key.
const loadLeg = "load reports"

func (t *Tier) legName(i int) string {
	if i < len(t.cfg.Legs) {
		return t.cfg.Legs[i].String()
	}
	return ""
}

// keep runs k, or only the origin on a node without peers.
func (t *Tier) keep(ctx context.Context, k *keeper) {
	t.keys.Add(1)
	defer t.keys.Add(-1)
	if t.cfg.Peers != nil {
		t.add(k)
		defer t.remove(k)
		k.run(ctx)
		return
	}
	k.hooks.begin(Owner)
	defer k.hooks.stop()
	k.origin(ctx)
}

func (t *Tier) add(k *keeper) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keepers[k.key] == nil {
		t.keepers[k.key] = make(map[*keeper]struct{})
	}
	t.keepers[k.key][k] = struct{}{}
}

func (t *Tier) remove(k *keeper) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.keepers[k.key], k); len(t.keepers[k.key]) == 0 {
		delete(t.keepers, k.key)
	}
}

// allLocked yields the keepers of all keys. The caller holds mu.
func (t *Tier) allLocked() iter.Seq[*keeper] {
	return func(yield func(*keeper) bool) {
		for _, of := range t.keepers {
			for k := range of {
				if !yield(k) {
					return
				}
			}
		}
	}
}

// forget closes connections to nodes that are no longer members: when the members change, and those
// that were made later, for calls to nodes that may have crashed.
func (t *Tier) forget(ctx context.Context) {
	changed := t.cfg.Members.Changed()
	t.cfg.Peers.retain(t.cfg.Members.View())
	sweep := time.NewTicker(unusedTime)
	defer sweep.Stop()
	for {
		select {
		case <-changed:
			changed = t.cfg.Members.Changed()
			t.cfg.Peers.retain(t.cfg.Members.View())
		case <-sweep.C:
			t.cfg.Peers.sweep(t.cfg.Members.View())
		case <-ctx.Done():
			return
		}
	}
}
