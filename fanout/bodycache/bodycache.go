// Package bodycache builds a value once for all that need it at the same time, and keeps recent
// values within a bound of bytes. fanout keeps encoded responses in it.
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

// Slot is a value that is built or being built.
type Slot[V any] struct {
	once  sync.Once
	value atomic.Pointer[V]
	size  int64 // bytes that count for the slot; guarded by the cache's mu
}

// slotSize estimates the overhead of a slot, in bytes.
const slotSize = 400

// New makes a cache of at most limit bytes.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	recent, err := simplelru.NewLRU[K, *Slot[V]](math.MaxInt, nil)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &Cache[K, V]{limit: limit, recent: recent}
}

// Slot returns the slot for k, and adds it if needed.
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

// Value returns the value; nil until it is built.
func (s *Slot[V]) Value() *V { return s.value.Load() }

// Fill returns the value of the slot for k, built by build if no other call has built it.
// Concurrent callers wait for the one that builds. build also returns the bytes that the value
// holds; a negative size means that the value is not kept.
func (c *Cache[K, V]) Fill(k K, s *Slot[V], build func() (*V, int64)) *V {
	s.once.Do(func() {
		made, size := build()
		s.value.Store(made)
		c.built.Add(1)
		if size < 0 {
			c.Drop(k, s)
			return
		}
		c.Grow(k, s, size)
	})
	return s.value.Load()
}

// Grow adds size bytes to what counts for the slot of k, and evicts other values if needed. It does
// nothing if the slot was evicted.
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

// Drop removes the slot for k. It does nothing if the slot was evicted. The value in it stays valid.
func (c *Cache[K, V]) Drop(k K, s *Slot[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, ok := c.recent.Peek(k); ok && now == s {
		c.recent.Remove(k)
		c.bytes -= s.size
	}
}

// Clear evicts all values. Values in use stay valid.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evictLocked(0)
}

// evictLocked evicts the least recently used values until the others hold at most the given bytes.
// The caller holds mu.
func (c *Cache[K, V]) evictLocked(most int64) {
	for c.bytes > most {
		_, old, ok := c.recent.RemoveOldest()
		if !ok {
			return
		}
		c.bytes -= old.size
	}
}

// Bytes returns the bytes that count for the kept values.
func (c *Cache[K, V]) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// Built returns how many values were built.
func (c *Cache[K, V]) Built() uint64 { return c.built.Load() }

// Shared returns how many calls of Slot found a slot.
func (c *Cache[K, V]) Shared() uint64 { return c.shared.Load() }
