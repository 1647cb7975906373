package head

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/shard/store"
)

const (
	// readAtOnce is how many keys one exchange with Redis is about, and readInTurn
	// how many are read in each round: of more, the rest waits for the next.
	readAtOnce = 128
	readInTurn = 2048
)

// followed is a key that this node has, and its heads as far as they are known. It is
// guarded by the mu of Heads.
type followed struct {
	group *cache.Group
	heads map[string]Head // by type URL
	// reached are the generations of the last heads that the tables were at, by type
	// URL.
	reached map[string]uint64
	lower   time.Time // since when Redis has the key in a lower epoch than a head; see forgetHigher
}

// Follow makes the heads of a group that has just become active be read at once. That
// it is followed from then on comes of itself.
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

// Reread makes the heads of all keys that this node has be read at once.
func (h *Heads) Reread() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.followed {
		h.unread[key] = struct{}{}
	}
	signal(h.fresh)
}

// followLocked makes g the group whose heads are followed.
func (h *Heads) followLocked(g *cache.Group) *followed {
	key := string(g.Key)
	f := h.followed[key]
	if f == nil {
		f = &followed{heads: make(map[string]Head), reached: make(map[string]uint64)}
		h.followed[key] = f
	}
	if f.group != g {
		f.group = g
		for url, head := range f.heads {
			agree(g, url, head, h.oursLocked(key, head))
		}
	}
	return f
}

// oursLocked reports whether this node wrote a head, of a key that it still owns.
func (h *Heads) oursLocked(key string, head Head) bool {
	o := h.owned[key]
	return o != nil && o.epoch == head.Epoch
}

// accept takes a head that was heard of, if it is newer than what is known.
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
	agree(f.group, url, head, h.oursLocked(key, head))
}

// noteReached notes which head the table of a type is at, if any.
func (f *followed) noteReached(url string) {
	head, ok := f.heads[url]
	if e := editionOf(f.group, url); ok && e.Digest == head.Digest {
		f.reached[url] = head.Generation
	}
}

// learn takes in what Redis has of a key.
func (h *Heads) learn(key string, k kept) {
	h.forgetHigher(key, k, time.Now())
	for url, head := range k.heads {
		h.accept(key, url, head)
	}
}

// listen takes in hints until ctx ends. Any of them may be lost: the check finds what
// they would have said.
func (h *Heads) listen(said <-chan store.Hint) {
	for hint := range said {
		if hint.Missed {
			h.mu.Lock()
			h.missed = true
			h.mu.Unlock()
			signal(h.fresh)
			continue
		}
		h.hear(hint.Payload)
	}
}

// check reads the heads of all active keys every few seconds until ctx ends, and of
// some at once.
func (h *Heads) check(ctx context.Context) {
	turn := ""
	timer := time.NewTimer(h.every())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.fresh:
			keys, hurry := h.takeUnread()
			h.readAll(ctx, keys)
			if hurry {
				timer.Reset(rand.N(h.cfg.Every / 4)) // not all nodes at the same moment
			}
			sleep(ctx, breath) // many hints are one reason to read
			continue
		case <-timer.C:
		}
		timer.Reset(h.every())
		h.mu.Lock()
		h.missed, h.hurried = false, false
		h.mu.Unlock()
		h.refresh()
		turn = h.round(ctx, turn)
	}
}

// every is the time until the next round: nodes that began together part.
func (h *Heads) every() time.Duration { return h.cfg.Every*3/4 + rand.N(h.cfg.Every/2) }

// takeUnread returns the keys that are to be read at once, and whether the next round
// has to come sooner than it would.
func (h *Heads) takeUnread() (keys []string, hurry bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.unread {
		keys = append(keys, key)
	}
	clear(h.unread)
	hurry = h.missed && !h.hurried
	h.hurried = h.missed
	return keys, hurry
}

// refresh makes the followed keys those that are active.
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
		}
	}
}

// round reads the keys that come after turn, as many as one round may, and returns the
// last of them.
func (h *Heads) round(ctx context.Context, turn string) string {
	h.mu.Lock()
	keys := make([]string, 0, len(h.followed))
	for key := range h.followed {
		keys = append(keys, key)
	}
	h.mu.Unlock()
	if len(keys) <= readInTurn {
		h.readAll(ctx, keys)
		return ""
	}
	slices.Sort(keys)
	from, _ := slices.BinarySearch(keys, turn+"\x00")
	keys = append(keys[from:], keys[:from]...)[:readInTurn]
	h.readAll(ctx, keys)
	return keys[len(keys)-1]
}

// readAll reads keys. Where Redis does not answer, the rest is left to the next round.
func (h *Heads) readAll(ctx context.Context, keys []string) {
	for some := range slices.Chunk(keys, readAtOnce) {
		calls := make([]store.Call, len(some))
		for i, key := range some {
			calls[i] = readCall(h.cfg.Store, key)
		}
		results, err := h.cfg.Store.RunEach(ctx, read, calls)
		for i, r := range results {
			if k, bad := h.read(some[i], r.Reply); r.Err == nil && bad == nil {
				h.learn(some[i], k)
				h.inspect(some[i], k)
			}
		}
		if err != nil {
			return
		}
	}
}

// inspect compares what Redis has of a key with what this node has written there, if
// it owns it.
func (h *Heads) inspect(key string, k kept) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.followed[key]; f != nil {
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
		o.again()
		h.enqueueLocked(o)
	case o.deferred:
		h.enqueueLocked(o)
	}
}
