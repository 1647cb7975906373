// Package store is the connection to the Redis that the nodes of a tier share. It never blocks
// other work: each call has a deadline, and while Redis is unreachable calls fail at once, except
// for one every few seconds that tries again. Errors of Redis are logged when they change, never
// for each call.
//
// # Files
//
//	connection        store.go, config.go, client.go, address.go
//	failures          breaker.go, denied.go (answers that an operator must fix), try.go (preflight)
//	calls             script.go, batch.go, reply.go
//	names             name.go, kind.go
//	publish/subscribe hints.go, parts.go
//	metrics           metrics.go
package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Store is a Redis. All methods are safe for concurrent use.
type Store struct {
	// Fixed after construction.
	cfg     Config
	client  redis.UniversalClient
	breaker *breaker
	metrics *metrics
	turns   chan struct{}   // a slot for each call that may proceed; nil for a cluster, see inTurn
	life    context.Context // of connections and hints: ends with Close
	end     context.CancelFunc

	mu     sync.Mutex
	ending bool           // guarded by mu: Close was called
	hints  sync.WaitGroup // goroutines started before that
}

// New creates the store for cfg. Redis need not be reachable.
func New(cfg Config) (*Store, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	client, err := connect(life, cfg)
	if err != nil {
		end()
		return nil, err
	}
	s := &Store{cfg: cfg, client: client, life: life, end: end, breaker: newBreaker(cfg.Logger, cfg.Prefix)}
	if cfg.Mode != Cluster {
		s.turns = make(chan struct{}, connections)
	}
	if s.metrics, err = newMetrics(cfg.Meter, s.breaker); err != nil {
		end()
		_ = client.Close()
		return nil, err
	}
	return s, nil
}

// State returns the state of Redis, as far as this node knows. It makes no call.
func (s *Store) State() State { return s.breaker.current() }

// Close closes the connections and ends all hints.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.ending
	s.ending = true
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.end()
	s.hints.Wait()
	return errors.Join(s.metrics.close(), s.client.Close())
}

// Get returns the value of a name, nil if there is none.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	r, err := s.call(ctx, "get", 0, func(ctx context.Context) (any, error) {
		return s.client.Get(ctx, name).Result()
	})
	if err != nil || r.IsNil() {
		return nil, err
	}
	text, err := r.Text()
	return []byte(text), err
}

// Set sets the value of a name, which expires after ttl. 0 means never.
func (s *Store) Set(ctx context.Context, name string, value []byte, ttl time.Duration) error {
	_, err := s.call(ctx, "set", len(value), func(ctx context.Context) (any, error) {
		return s.client.Set(ctx, name, value, ttl).Result()
	})
	return err
}

// Delete removes names with the same tag.
func (s *Store) Delete(ctx context.Context, names ...string) error {
	_, err := s.call(ctx, "del", 0, func(ctx context.Context) (any, error) {
		return s.client.Del(ctx, names...).Result()
	})
	return err
}

// call makes a call that sends size bytes, within its timeout.
func (s *Store) call(ctx context.Context, name string, size int, f func(context.Context) (any, error)) (Reply, error) {
	if err := ctx.Err(); err != nil {
		return Reply{}, err
	}
	timeout := s.cfg.Timeout + time.Duration(size)*time.Second/(8<<20)
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	value, err := s.breaker.do(name, func() (any, error) {
		value, err := s.inTurn(within, f)
		switch {
		case errors.Is(err, redis.Nil):
			return nil, nil
		case err != nil && contextError(ctx) != nil:
			return nil, &callerCancelled{err: contextError(ctx)} // says nothing about Redis
		}
		return value, err
	})
	s.metrics.called(name, err, time.Since(began))
	if made := !errors.Is(err, ErrDown); made && (unreachable(err) || isCallerCancelled(err)) {
		s.relocate()
	}
	return Reply{value}, err
}

// inTurn makes a call when a connection is free. The library can wait for one, too, but with timers
// that the whole program shares, and a bubble of [testing/synctest] must not use those of another.
// Each master of a cluster has connections of its own, so there the library waits.
func (s *Store) inTurn(ctx context.Context, f func(context.Context) (any, error)) (any, error) {
	if s.turns == nil {
		return f(ctx)
	}
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
		return f(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// relocate makes a cluster client reload the slots of the masters, in the background: after a
// failover the library would otherwise not do so for a minute. Other clients find their server with
// each connection.
func (s *Store) relocate() {
	if cluster, ok := s.client.(*redis.ClusterClient); ok && s.life.Err() == nil {
		cluster.ReloadState(s.life)
	}
}

// contextError returns why a context has ended. A connection can notice the deadline before the
// context does.
func contextError(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}
