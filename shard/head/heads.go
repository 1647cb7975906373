package head

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/lockorder"
	"xdsrelay/relay/secure"
	"xdsrelay/relay/trace"
	"xdsrelay/shard/store"
)

// Config is the configuration of [Heads]. It must not be changed after [New].
type Config struct {
	// Store is the Redis. Required.
	Store *store.Store
	// Node is the name of this node. Required.
	Node string
	// Active returns the groups whose heads are followed; private groups are skipped. Required.
	Active func() []*cache.Group
	// Wait bounds how long a new owner keeps a head that differs from its content, until its
	// control plane has answered. Default 5 s.
	Wait time.Duration
	// Every is the interval at which Redis is asked which heads have changed, ± a quarter. Default
	// 3 s.
	Every time.Duration
	// Sweep is the interval at which the owner of a key reads its heads although nothing indicates
	// a change, ± a quarter. Each of n other nodes does so every n times that. Default 15 min.
	Sweep time.Duration
	// Nodes returns the number of nodes in the tier. Required.
	Nodes func() int
	// Unstamped reports whether a node of the tier writes heads without stamps, as earlier versions
	// do. As long as that is the case, all keys are read in turn. Required.
	Unstamped func() bool
	// Sharded reports whether all nodes of the tier subscribe to sharded channels: then hints are
	// published on these. Nil means never.
	Sharded func() bool
	// Listening is called after each subscription to hints, with whether it includes sharded
	// channels. May be nil.
	Listening func(sharded bool)
	// Logger logs problems. Required.
	Logger *slog.Logger
	// Meter creates the metrics. Required.
	Meter metric.Meter
	// Token is the secret of the tier: heads are signed with it, and only signed ones count. Nil
	// means that heads are not signed: then every head in Redis counts.
	Token *secure.Token
	// Tracer records spans of heads from traced updates; nil for none.
	Tracer *trace.Tracer
	// Rewrites is called with a key that this node owns when its heads are to be written: if Redis has lost
	// what this node has written of it, or if that was long ago, or never. It must not block, nor call this
	// package. May be nil.
	Rewrites func(key string)
}

func (c *Config) setDefaults() error {
	if c.Store == nil || c.Node == "" || c.Active == nil || c.Nodes == nil || c.Unstamped == nil || c.Logger == nil || c.Meter == nil {
		return errors.New("head: Store, Node, Active, Nodes, Unstamped, Logger and Meter are required")
	}
	if c.Rewrites == nil {
		c.Rewrites = func(string) {}
	}
	if c.Sharded == nil {
		c.Sharded = func() bool { return false }
	}
	if c.Listening == nil {
		c.Listening = func(bool) {}
	}
	if c.Wait <= 0 {
		c.Wait = 5 * time.Second
	}
	if c.Every <= 0 {
		c.Every = 3 * time.Second
	}
	if c.Sweep <= 0 {
		c.Sweep = 15 * time.Minute
	}
	return nil
}

// Heads writes the heads of the keys that this node owns, and follows those of all keys that it
// has. All methods are safe for concurrent use.
type Heads struct {
	// Fixed after construction.
	cfg     Config
	metrics *metrics
	end     context.CancelFunc
	work    sync.WaitGroup
	dirty   chan struct{}    // signalled when there may be something to write
	fresh   chan struct{}    // signalled when unread or missed has changed
	parts   *store.Parts     // the buckets of board
	queue   queue[*owned]    // for the writer
	ahead   queue[*advanced] // for the writer

	mu lockorder.Mutex[lockorder.Heads]
	// Guarded by mu.
	owned    map[string]*owned    // by key
	advanced map[string]*advanced // by key
	followed map[string]*followed
	board    board
	// unstamped are buckets, and keys of each, whose heads may have been written since their stamp
	// was set. stamping is the random text of the present or last write of stamps.
	unstamped     map[int]map[string]struct{}
	stamping      string
	unread        map[string]struct{} // keys to read at once
	withoutStamps bool                // the last round could not use stamps
	listening     bool                // hints have been received before
	missed        bool                // hints may have been missed since the last round
	hurried       bool                // the next round was moved up because of that
}

// New creates the heads of a node and begins to follow those of others.
func New(cfg Config) (*Heads, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	h := &Heads{
		cfg: cfg, dirty: make(chan struct{}, 1), fresh: make(chan struct{}, 1),
		parts: store.NewParts(), board: newBoard(), unstamped: make(map[int]map[string]struct{}),
		owned: make(map[string]*owned), advanced: make(map[string]*advanced), followed: make(map[string]*followed), unread: make(map[string]struct{}),
	}
	h.queue.dirty, h.ahead.dirty = h.dirty, h.dirty
	var err error
	if h.metrics, err = newMetrics(cfg.Meter, h); err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	h.end = end
	h.work.Go(func() { h.listen(cfg.Store.HintsOf(ctx, store.HeadHints, h.parts)) })
	h.work.Go(func() { h.check(ctx) })
	h.work.Go(func() { h.write(ctx) })
	return h, nil
}

// Close stops everything. Call it after the functions that Own and Advance returned.
func (h *Heads) Close() error {
	h.end()
	h.work.Wait()
	return h.metrics.close()
}

// Of returns the known head of a type of a key that this node has. It makes no call.
func (h *Heads) Of(key, typeURL string) (Head, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.followed[key]
	if f == nil {
		return Head{}, false
	}
	head, ok := f.heads[typeURL]
	return head, ok
}

// Epoch returns the number under which this node has claimed a key; ok is false if it has not, or
// if another node has since, as far as this node knows. It makes no call.
func (h *Heads) Epoch(key string) (epoch uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.owned[key]
	if o == nil || o.epoch == 0 {
		return 0, false
	}
	return o.epoch, true
}

// signal wakes the receiver of c, now or when it waits next.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
