package load

import (
	"context"
	"errors"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/lockorder"
)

// Config says how a Collector behaves. It is not changed after [New].
type Config struct {
	// Run reports an account to the origin until ctx ends, and then what is
	// left; it is called on a goroutine of its own for each key that gets
	// clients, one at a time for a key. Required.
	Run func(ctx context.Context, o *Outlet)
	// Linger is how long an account without clients is still reported (K10).
	// Default 60 s; negative means not at all.
	Linger time.Duration
	// MaxBytes bounds what one account holds, in bytes, roughly. Default 32 MiB.
	MaxBytes int64
	// TotalBytes bounds what all accounts hold together, in bytes, roughly, beyond the
	// 32 KiB that each may hold in any case. An account gets at most a quarter of what is
	// free. Default 64 MiB.
	TotalBytes int64
}

func (c *Config) setDefaults() error {
	if c.Run == nil {
		return errors.New("load: Run is required")
	}
	if c.Linger == 0 {
		c.Linger = time.Minute
	}
	c.Linger = max(c.Linger, 0)
	if c.MaxBytes <= 0 {
		c.MaxBytes = 32 << 20
	}
	if c.TotalBytes <= 0 {
		c.TotalBytes = 64 << 20
	}
	return nil
}

// Collector holds the accounts of all keys. All methods are safe for concurrent
// use.
type Collector struct {
	// Fixed after construction.
	cfg   Config
	ctx   context.Context
	close context.CancelCauseFunc
	runs  sync.WaitGroup

	budget budget // has no lock

	mu lockorder.Mutex[lockorder.LoadSource]
	// Guarded by mu.
	accounts map[aggregation.Key]*account
	closed   bool
}

var (
	errClosed = errors.New("the relay is shutting down")
	errIdle   = errors.New("no client of the key has reported for the linger time")
)

// New makes a collector. It fails where cfg lacks a required field.
func New(cfg Config) (*Collector, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	c := &Collector{cfg: cfg, accounts: make(map[aggregation.Key]*account)}
	c.budget.most = cfg.TotalBytes
	c.ctx, c.close = context.WithCancelCause(context.Background())
	return c, nil
}

// Join adds a client to the account of key, which is made on first use and then
// reported upstream in the name of node. news is called, on any goroutine, when
// [Client.Terms] has something new to say; it must not block. Each Join needs one
// [Client.Leave].
func (c *Collector) Join(key aggregation.Key, node *corev3.Node, news func()) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.accounts[key]
	if a == nil {
		a = newAccount(c, key, node)
		c.accounts[key] = a
	}
	a.members++
	if a.retire != nil {
		a.retire.Stop()
	}
	if a.end == nil && !c.closed {
		c.startLocked(a)
	}
	return a.newClient(news)
}

// startLocked starts to report an account, once the last one to do so is done.
func (c *Collector) startLocked(a *account) {
	ctx, end := context.WithCancelCause(c.ctx)
	before, done := a.done, make(chan struct{})
	a.end, a.done = end, done
	c.runs.Go(func() {
		if before != nil {
			<-before
		}
		c.cfg.Run(ctx, &Outlet{a})
		close(done)
		c.forget(a, done)
	})
}

// forget drops an account whose report, the one of done, is over and was the
// last.
func (c *Collector) forget(a *account, done chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.done == done && a.end == nil && a.members == 0 {
		a.mu.Lock()
		a.sums.clear() // what could not be reported
		a.mu.Unlock()
		delete(c.accounts, a.key)
	}
}

// leave ends a client's membership.
func (c *Collector) leave(a *account) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.members--
	if a.members > 0 || c.closed {
		return
	}
	if a.retire == nil {
		a.retire = time.AfterFunc(c.cfg.Linger, func() { c.retire(a) })
	} else {
		a.retire.Reset(c.cfg.Linger)
	}
}

// retire ends the report of an account that nobody adds to.
func (c *Collector) retire(a *account) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.members > 0 || a.end == nil || c.closed {
		return
	}
	a.end(errIdle)
	a.end = nil
}

// Close ends all reports and waits until what was left has been sent, or cannot
// be.
func (c *Collector) Close() {
	c.mu.Lock()
	c.closed = true
	for _, a := range c.accounts {
		if a.retire != nil {
			a.retire.Stop()
		}
	}
	c.mu.Unlock()
	c.close(errClosed)
	c.runs.Wait()
}
