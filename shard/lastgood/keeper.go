package lastgood

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
	"xdsrelay/shard"
)

// Config is the configuration of a [Keeper]. It must not be changed after [New].
type Config struct {
	// Store is where records are stored. Required.
	Store Store
	// Prefix distinguishes tiers that share a store: a tier does not accept records of another one.
	Prefix string
	// Keys encrypt the records; nil for none.
	Keys *Keys
	// Encrypted reports whether a type is stored only if there are keys. Secrets always are, and so
	// is a type while any of its resources has a secret. Nil: no others.
	Encrypted func(t *resource.Type) bool
	// Unproven reports whether the content of a type is not to be stored yet, since a rollout has not
	// proven it; see [cache.Group.Touch]. The record before stays. Nil: all is.
	Unproven func(g *cache.Group, t *resource.Type) bool
	// Delay is how long after a change a type is written. Default 1 s.
	Delay time.Duration
	// MaxSize bounds a record in bytes; larger ones are not stored. Required.
	MaxSize int
	// Wait bounds how long a key that is new to this node waits for its records before the control
	// plane is asked. Records that arrive later are still applied. Default 1 s.
	Wait time.Duration
	// AwaitHeads waits until the tier heads of a key were read, which may prove that its records are old. Nil: there
	// are none.
	AwaitHeads func(ctx context.Context, key string)
	// Clock is the time of day in records. Nil means the machine's.
	Clock shard.Clock
	// Logger logs problems. Required.
	Logger *slog.Logger
	// Meter creates the metrics. Required.
	Meter metric.Meter
}

const (
	// writers is how many records are made concurrently, and readers how many keys are read: each
	// may use much memory.
	writers = 2
	readers = 8
)

// Keeper stores the keys that this node owns, and restores those that are new to it. All methods
// are safe for concurrent use.
type Keeper struct {
	// Fixed after construction.
	cfg     Config
	sealer  *sealer
	metrics *metrics
	writing chan struct{} // holds a token for each record that is being made
	reading chan struct{} // and for each key that is being read
	life    context.Context
	end     context.CancelFunc
	// schedule has the keys that this node owns.
	schedule schedule

	mu sync.Mutex
	// Guarded by mu.
	closed bool
	loads  sync.WaitGroup
	logged map[string]time.Time // when a kind of unusable record was logged last
	failed error                // error of the last write; nil if it succeeded
	since  time.Time            // since when writes fail
}

// New creates a keeper.
func New(cfg Config) (*Keeper, error) {
	if cfg.Store == nil || cfg.MaxSize <= 0 || cfg.Logger == nil || cfg.Meter == nil {
		return nil, errors.New("lastgood: Store, MaxSize, Logger and Meter are required")
	}
	if cfg.Delay <= 0 {
		cfg.Delay = time.Second
	}
	if cfg.Wait <= 0 {
		cfg.Wait = time.Second
	}
	if cfg.Encrypted == nil {
		cfg.Encrypted = func(*resource.Type) bool { return false }
	}
	k := &Keeper{cfg: cfg, writing: make(chan struct{}, writers), reading: make(chan struct{}, readers), logged: make(map[string]time.Time)}
	var err error
	if k.sealer, err = newSealer(cfg.Prefix, cfg.Keys, cfg.MaxSize); err != nil {
		return nil, err
	}
	if k.metrics, err = newMetrics(cfg.Meter); err != nil {
		k.sealer.close()
		return nil, err
	}
	k.schedule.delay = cfg.Delay
	k.life, k.end = context.WithCancel(context.Background())
	return k, nil
}

// Close ends the reads that Restore has started. Call it after the functions that Own returned.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.end()
	k.loads.Wait()
	k.schedule.work.Wait()
	k.sealer.close()
}

// Problem returns why records cannot be written, without secrets, and since when; "" if there is no
// problem, or nothing was written yet.
func (k *Keeper) Problem() (why string, since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed == nil {
		return "", time.Time{}
	}
	return redact.Short(k.failed.Error(), 512), k.since
}

// noteWrite records the result of a write. An error because another node owns the key is not a
// failure of the store.
func (k *Keeper) noteWrite(err error) {
	if errors.Is(err, errFenced) || errors.Is(err, errUnclaimed) || errors.Is(err, context.Canceled) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && k.failed == nil {
		k.since = time.Now()
	}
	k.failed = err
}

// mustEncrypt reports whether a type is stored only if there are keys.
func (k *Keeper) mustEncrypt(t *resource.Type) bool {
	return resource.HoldsSecrets(t.URL) || k.cfg.Encrypted(t)
}

// take takes a token, unless ctx ends before.
func take(ctx context.Context, tokens chan struct{}) bool {
	select {
	case tokens <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
