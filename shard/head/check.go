package head

import (
	"context"
	"fmt"
	"slices"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/shard/store"
)

// Check compares the content of this node with Redis. It returns a sentence for each difference
// that does not end by itself, sorted, and nothing if there are none. The number of its calls grows
// with the number of keys. Keys with a difference are read again at once: another program may have
// changed them without a stamp, so they would be read much later.
func (h *Heads) Check(ctx context.Context) (wrong []string, err error) {
	h.refresh()
	h.mu.Lock()
	keys := make([]string, 0, len(h.followed))
	for key := range h.followed {
		keys = append(keys, key)
	}
	h.mu.Unlock()
	for some := range slices.Chunk(keys, readAtOnce) {
		calls := make([]store.Call, len(some))
		for i, key := range some {
			calls[i] = readCall(h.cfg.Store, key)
		}
		results, err := h.cfg.Store.RunEach(ctx, read, calls)
		if err != nil {
			return nil, fmt.Errorf("heads: %w", err)
		}
		for i, r := range results {
			k, err := h.read(some[i], r.Reply)
			if err != nil {
				return nil, fmt.Errorf("key %q: %w", some[i], err)
			}
			if differs := h.compare(some[i], k); len(differs) > 0 {
				wrong = append(wrong, differs...)
				h.readSoon(some[i])
			}
		}
	}
	slices.Sort(wrong)
	return wrong, nil
}

// compare is Check for one key, with its state k in Redis.
func (h *Heads) compare(key string, k keyState) (wrong []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, o := h.followed[key], h.owned[key]
	if f == nil || o != nil && (h.queue.has(o) || o.deferred) {
		return nil // it is about to be written
	}
	complain := func(e cache.TableDigest, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("key %q, type %s: ", key, e.Type.URL)+fmt.Sprintf(format, args...))
	}
	if o != nil && k.epoch > o.epoch {
		return []string{fmt.Sprintf("key %q: this node takes it for its own, and another one has claimed it in epoch %d", key, k.epoch)}
	}
	for _, e := range editions(f.group) {
		head, ok := k.heads[e.Type.URL]
		switch {
		case e.Updates == 0: // nothing is known of it yet
		case o != nil && !ok:
			complain(e, "this node owns it, and there is no head")
		case o != nil && !head.holds(e):
			complain(e, "this node owns it and holds %s, the head of node %s is %s", e.Digest.Hex(), head.Owner, head.Digest.Hex())
		case o == nil && ok && e.Wildcard != cache.NoWildcard && e.Standing.Behind() && time.Since(head.At) > h.cfg.Wait:
			complain(e, "this node holds %s, the head of node %s is %s since %s", e.Digest.Hex(), head.Owner, head.Digest.Hex(), head.At.Format(time.RFC3339))
		}
	}
	return wrong
}
