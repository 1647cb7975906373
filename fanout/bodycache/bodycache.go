// Package bodycache builds what many want at the same time a single time, and keeps
// the recent results within a bound of bytes.
package bodycache

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache holds values by key. All methods are safe for concurrent use.
type Cache[K comparable, V any] struct {
	limit int64 // fixed after construction

	mu sync.Mutex
	// Guarded by mu.
	recent *simplelru.LRU[K, *Slot[V]]
	bytes  int64

	built, shared atomic.Uint64
}

// Slot is a value that is there or is being built.
type Slot[V any] struct {
	once  sync.Once
	value atomic.Pointer[V]
	size  int64 // guarded by the cache's mu; what its bytes count for it
}

// slotSize is roughly what a slot costs beside its data, in bytes.
const slotSize = 400

// New makes a cache of so many bytes.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	recent, err := simplelru.NewLRU[K, *Slot[V]](math.MaxInt, nil)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &Cache[K, V]{limit: limit, recent: recent}
}

// Slot returns the slot for k, which is made if there is none.
func (c *Cache[K, V]) Slot(k K) *Slot[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.recent.Get(k)
	if ok {
		c.shared.Add(1)
		return s
	}
	s = &Slot[V]{size: slotSize}
	c.recent.Add(k, s)
	c.bytes += s.size
	return s
}

// Value is what was built; nil until then.
func (s *Slot[V]) Value() *V { return s.value.Load() }

// Fill returns the value of the slot for k, built by build if nobody did before.
// Concurrent callers wait for the one that builds. build returns the bytes that
// the value holds, too; fewer than 0 mean that the value is not kept.
func (c *Cache[K, V]) Fill(k K, s *Slot[V], build func() (*V, int64)) *V {
	s.once.Do(func() {
		made, size := build()
		s.value.Store(made)
		c.built.Add(1)
		if size < 0 {
			c.drop(k, s)
			return
		}
		c.Grow(k, s, size)
	})
	return s.value.Load()
}

// Grow notes that the value of the slot for k holds so many bytes more, and makes
// room for them. A value that was evicted meanwhile does not count.
func (c *Cache[K, V]) Grow(k K, s *Slot[V], size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, ok := c.recent.Peek(k); !ok || now != s {
		return
	}
	c.bytes += size
	s.size += size
	c.evictLocked(c.limit)
}

// drop forgets the slot for k.
func (c *Cache[K, V]) drop(k K, s *Slot[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, ok := c.recent.Peek(k); ok && now == s {
		c.recent.Remove(k)
		c.bytes -= s.size
	}
}

// Clear forgets all values. Who holds one keeps it.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evictLocked(0)
}

// evictLocked forgets the values that are unused for longest, until the rest holds no
// more than so many bytes.
func (c *Cache[K, V]) evictLocked(most int64) {
	for c.bytes > most {
		_, old, ok := c.recent.RemoveOldest()
		if !ok {
			return
		}
		c.bytes -= old.size
	}
}

// Bytes is what the values hold that are kept.
func (c *Cache[K, V]) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// Built counts the values that were built.
func (c *Cache[K, V]) Built() uint64 { return c.built.Load() }

// Shared counts the slots that were there already when they were asked for.
func (c *Cache[K, V]) Shared() uint64 { return c.shared.Load() }
