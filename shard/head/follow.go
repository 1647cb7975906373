package head

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/shard/store"
)

// readAtOnce is how many keys one pipeline to Redis reads.
const readAtOnce = 128

// followed is a key that this node has, and its known heads. The mu of Heads guards it.
type followed struct {
	group *cache.Group
	heads map[string]Head // by type URL
	// reached are the generations of the last heads that the tables have reached, by type URL.
	reached map[string]uint64
	// due is when the key is read although nothing indicates that its heads have changed.
	due   time.Time
	lower time.Time     // since when Redis has the key in a lower epoch than a head; see forgetHigher
	read  chan struct{} // closed when the key was read, or could not be read, for the first time
}

// readWait bounds how long [Heads.AwaitRead] waits.
const readWait = 500 * time.Millisecond

// Follow makes the heads of a newly active group be read at once. From then on it is followed like
// all active groups.
func (h *Heads) Follow(g *cache.Group) {
	if g.Private() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.followLocked(g)
	h.unread[string(g.Key)] = struct{}{}
	signal(h.fresh)
}

// AwaitRead waits until the heads of a key that this node follows were read once, or could not be read, for
// 500 ms at most or until ctx ends. Without the heads nobody knows that a record of the key is old.
func (h *Heads) AwaitRead(ctx context.Context, key string) {
	h.mu.Lock()
	f := h.followed[key]
	h.mu.Unlock()
	if f == nil {
		return
	}
	timer := time.NewTimer(readWait)
	defer timer.Stop()
	select {
	case <-f.read:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// readOnceLocked records that keys were read, or could not be read.
func (h *Heads) readOnceLocked(keys ...string) {
	for _, key := range keys {
		if f := h.followed[key]; f != nil {
			select {
			case <-f.read:
			default:
				close(f.read)
			}
		}
	}
}

// Reread makes the heads of all keys of this node be read at once.
func (h *Heads) Reread() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.followed {
		h.unread[key] = struct{}{}
	}
	signal(h.fresh)
}

// followLocked makes g the group whose heads are followed. A new one is due.
func (h *Heads) followLocked(g *cache.Group) *followed {
	key := string(g.Key)
	f := h.followed[key]
	if f == nil {
		f = &followed{heads: make(map[string]Head), reached: make(map[string]uint64), read: make(chan struct{})}
		h.followed[key] = f
		if h.board.add(key) {
			h.parts.Set(bucketOf(key), true)
		}
	}
	if f.group != g {
		f.group = g
		for url, head := range f.heads {
			reportToCache(g, url, head, h.oursLocked(key, head))
		}
	}
	return f
}

// oursLocked reports whether this node wrote a head of a key that it still owns. Another node may
// have advanced the heads of its epoch.
func (h *Heads) oursLocked(key string, head Head) bool {
	o := h.owned[key]
	return o != nil && o.epoch == head.Epoch && head.Owner == h.cfg.Node
}

// accept accepts a head from Redis if it is newer than the known one.
func (h *Heads) accept(key, url string, head Head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acceptLocked(key, url, head)
}

func (h *Heads) acceptLocked(key, url string, head Head) {
	f := h.followed[key]
	if f == nil {
		return
	}
	if known, ok := f.heads[url]; ok && !head.newer(known) {
		return
	}
	f.noteReached(url)
	f.heads[url] = head
	reportToCache(f.group, url, head, h.oursLocked(key, head))
	if a := h.advanced[key]; a != nil {
		h.ahead.add(a) // another node may have been faster
	}
}

// noteReached records which head the table of a type has reached, if any.
func (f *followed) noteReached(url string) {
	head, ok := f.heads[url]
	if e := editionOf(f.group, url); ok && e.Digest == head.Digest {
		f.reached[url] = head.Generation
	}
}

// acceptAll accepts the state of a key in Redis.
func (h *Heads) acceptAll(key string, k keyState) {
	h.forgetHigher(key, k, time.Now())
	for url, head := range k.heads {
		h.accept(key, url, head)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readOnceLocked(key)
}

// refresh follows the keys that are active, and no others.
func (h *Heads) refresh() {
	groups := h.cfg.Active()
	h.mu.Lock()
	defer h.mu.Unlock()
	active := make(map[string]struct{}, len(groups))
	for _, g := range groups {
		if !g.Private() {
			active[string(g.Key)] = struct{}{}
			h.followLocked(g)
		}
	}
	for key := range h.followed {
		if _, ok := active[key]; !ok {
			delete(h.followed, key)
			if h.board.remove(key) {
				h.parts.Set(bucketOf(key), false)
			}
		}
	}
}

// readAll reads keys, and returns those that could not be read. It tries all of them until ctx
// ends: Redis may reject only some keys, and calls to a Redis that does not answer soon fail at
// once.
func (h *Heads) readAll(ctx context.Context, keys []string) (failed []string) {
	for some := range slices.Chunk(keys, readAtOnce) {
		if len(failed) > 0 && ctx.Err() != nil {
			failed = append(failed, some...)
			continue
		}
		calls := make([]store.Call, len(some))
		for i, key := range some {
			calls[i] = readCall(h.cfg.Store, key)
		}
		results, _ := h.cfg.Store.RunEach(ctx, read, calls)
		for i, r := range results {
			k, bad := h.read(some[i], r.Reply)
			if r.Err != nil || bad != nil {
				failed = append(failed, some[i])
				continue
			}
			h.acceptAll(some[i], k)
			h.inspect(some[i], k)
		}
	}
	return failed
}

// inspect compares the state of a key in Redis with what this node has written there, if it owns
// the key.
func (h *Heads) inspect(key string, k keyState) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.followed[key]; f != nil {
		pause := h.pauseLocked(key)
		if f.due.IsZero() {
			pause = rand.N(pause) // spreads keys that were added together
		}
		f.due = now.Add(pause)
		for url := range f.heads {
			f.noteReached(url)
		}
	}
	o := h.owned[key]
	if o == nil {
		return
	}
	lost, missing := o.differs(k, now)
	switch {
	case lost:
		h.loseLocked(o, now)
	case missing:
		o.rewriteAll(k)
		h.queue.add(o)
		h.cfg.Rewrites(key)
	case o.deferred:
		h.queue.add(o)
	}
}

// pauseLocked returns how long a key is not read although nothing has changed. All followers
// together read it about as often as its owner does.
func (h *Heads) pauseLocked(key string) time.Duration {
	pause := h.cfg.Sweep
	if h.owned[key] == nil {
		pause *= time.Duration(max(1, h.cfg.Nodes()))
	}
	return pause*3/4 + rand.N(pause/2)
}

// dueLocked makes a key be read within a time.
func (h *Heads) dueLocked(key string, within time.Duration) {
	if f := h.followed[key]; f != nil {
		if due := time.Now().Add(within); due.Before(f.due) {
			f.due = due
		}
	}
}
