package pool

import (
	"sync/atomic"
	"weak"

	"xdsrelay/relay/lockorder"
	"xdsrelay/relay/resource"
)

// Pool finds resources that are held already. The zero value is an empty pool that is not in use.
// All methods are safe for concurrent use.
type Pool struct {
	used   atomic.Bool
	shards [64]shard // by the first byte of the digest
}

// A shard is small enough to be swept while others wait for it.
type shard struct {
	mu lockorder.Mutex[lockorder.Leaf]
	// Guarded by mu.
	held  map[resource.Digest]weak.Pointer[resource.Resource]
	sweep int // the length at which held is swept next
}

// smallest is the number of resources for which a shard is not swept.
const smallest = 64

// Use makes the pool take note of what is held from now on. A process with a single key does without:
// a resource in the pool takes about 80 bytes there.
func (p *Pool) Use() { p.used.Store(true) }

// Share returns what to keep instead of r: a resource that is held already, a copy of r that uses the
// bytes of one, or r, which is found from now on. See [resource.Resource.Share].
func (p *Pool) Share(r *resource.Resource) *resource.Resource {
	if !p.used.Load() {
		return r
	}
	member := r.Member()
	s := &p.shards[member[0]%byte(len(p.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.held[member].Value(); held != nil {
		return r.Share(held)
	}
	if len(s.held) >= max(s.sweep, smallest) {
		s.sweepLocked()
	}
	if s.held == nil {
		s.held = make(map[resource.Digest]weak.Pointer[resource.Resource])
	}
	s.held[member] = weak.Make(r)
	return r
}

// sweepLocked forgets what has been collected. It runs again when there are twice as many resources
// as are left, so its cost is that of a few additions to the map. s.mu must be held.
func (s *shard) sweepLocked() {
	left := make(map[resource.Digest]weak.Pointer[resource.Resource]) // a map never shrinks
	for member, held := range s.held {
		if held.Value() != nil {
			left[member] = held
		}
	}
	s.held, s.sweep = left, 2*len(left)
}

// Len is the number of resources that the pool knows, including some that have been collected.
func (p *Pool) Len() int {
	n := 0
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		n += len(s.held)
		s.mu.Unlock()
	}
	return n
}
