package head

import (
	"context"
	"maps"
	"strconv"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/cache/tierhead"
	"xdsrelay/shard/store"
)

// A node that asks the control plane itself because the owner of a key does not answer may have newer
// content than the tier head until the lease of the owner ends: until then the key has no other
// owner. Nodes that ask the control plane later would send older content to clients that arrive
// from this one (K12). So the node advances the tier head. It does not claim the key: it replaces a
// head only by content that is newer, while no other node has written a head since. So several such
// nodes do not undo the writes of each other, nor those of an owner that they alone cannot reach. An
// owner that has claimed the key and has written nothing may wait for its own control plane: what it
// writes then is of a newer epoch.

// advance replaces heads of one epoch, each if Redis has the one that the writer compared its
// content with. ARGV: how long the key is kept, the epoch, and for each type its field, the generation
// of the present head, and the new head. It returns how many heads were replaced.
var advance = store.NewScript("head_advance", `
local replaced = 0
for i = 3, #ARGV, 3 do
	local e, g = string.match(redis.call('HGET', KEYS[1], ARGV[i]) or '', '^(%d+) (%d+) ')
	if e == ARGV[2] and g == ARGV[i + 1] then
		redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
		replaced = replaced + 1
	end
end
if replaced > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return string.format('%.0f', replaced)
`)

// ownerFirst is how long a node waits before it advances heads. An owner that only this node cannot
// reach writes the head of a change within that time, and need not be overtaken.
const ownerFirst = 250 * time.Millisecond

// advanced is a key whose heads this node advances. The mu of Heads guards all fields.
type advanced struct {
	key   string
	group *cache.Group
	// epoch is the one of the last owner; 0 if there was none. Where it is higher by now, another
	// node owns the key.
	epoch uint64
	// before are the heads from before the present streams to the control plane, by type URL: what
	// the control plane confirms on these streams is newer.
	before map[string]Head
	failed bool // to be tried again in the next round
}

// newestEpoch returns the highest epoch of heads by type URL; 0 if there are none.
func newestEpoch(heads map[string]Head) (epoch uint64) {
	for _, h := range heads {
		epoch = max(epoch, h.Epoch)
	}
	return epoch
}

// due returns the heads to write for tables in these states. known are the present heads, as far as
// this node knows.
func (a *advanced) due(editions []cache.TableDigest, known map[string]Head, node string, now time.Time) map[string]Head {
	if newestEpoch(known) > a.epoch {
		return nil
	}
	heads := make(map[string]Head)
	for _, e := range editions {
		url := e.Type.URL
		last := known[url]
		if last.Generation == 0 || last.Epoch != a.epoch || last.Digest == e.Digest || !e.Confirmed || last.Generation >= maxNumber-1 {
			continue
		}
		// Without the wildcard, nodes have what their own clients ask for: other content is newer
		// only if it replaced the head's.
		before, ok := a.before[url]
		if e.Standing == tierhead.Ahead || ok && e.Wildcard == cache.WildcardKnown && last.same(before) {
			heads[url] = Head{Epoch: a.epoch, Generation: last.Generation + 1, Digest: e.Digest, Version: e.Version, Owner: node, At: now, Trace: e.Traced.Parent()}
		}
	}
	return heads
}

// Advance replaces the tier heads of a group by the content of this node where that is newer, until
// end is called. It is for a node that asks the control plane itself and does not own the key.
// Neither Advance nor end waits for Redis.
func (h *Heads) Advance(g *cache.Group) (end func()) {
	a := &advanced{key: string(g.Key), group: g}
	confirmed := make(map[string]bool)
	for _, e := range editions(g) {
		confirmed[e.Type.URL] = e.Confirmed
	}
	h.mu.Lock()
	h.advanced[a.key] = a
	a.before = maps.Clone(h.followLocked(g).heads)
	a.epoch = newestEpoch(a.before)
	maps.DeleteFunc(a.before, func(url string, _ Head) bool { return confirmed[url] })
	h.mu.Unlock()
	later := &later{after: ownerFirst, do: func() { h.ahead.add(a) }}
	stop := g.OnChange(later.event)
	h.ahead.add(a)
	return func() {
		stop()
		later.stop()
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.advanced[a.key] == a {
			delete(h.advanced, a.key)
		}
	}
}

// retryAheadLocked makes the writer handle keys again that it could not write.
func (h *Heads) retryAheadLocked() {
	for _, a := range h.advanced {
		if a.failed {
			h.ahead.add(a)
		}
	}
}

// takeAhead removes the next keys from the queue.
func (h *Heads) takeAhead() []*advanced {
	some := h.ahead.take(atOnce)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range some {
		a.failed = false
	}
	return some
}

// advanceAll writes the due heads of the next keys in the queue, and reports whether there were
// any keys.
func (h *Heads) advanceAll(ctx context.Context) bool {
	type job struct {
		*advanced
		heads map[string]Head
	}
	var jobs []job
	var calls []store.Call
	some := h.takeAhead()
	for _, a := range some {
		now, are := time.Now(), editions(a.group)
		h.mu.Lock()
		if f := h.followed[a.key]; f != nil && h.advanced[a.key] == a {
			if heads := a.due(are, f.heads, h.cfg.Node, now); len(heads) > 0 {
				h.noteUnstampedLocked(a.key)
				jobs = append(jobs, job{a, heads})
				calls = append(calls, advanceCall(h.cfg.Store, h.cfg.Token, a.key, a.epoch, heads))
			}
		}
		h.mu.Unlock()
	}
	results, _ := h.cfg.Store.RunEach(ctx, advance, calls)
	for i, r := range results {
		n, err := r.Text()
		h.onAdvanced(jobs[i].advanced, jobs[i].heads, n, r.Err == nil && err == nil)
	}
	return len(some) > 0
}

// onAdvanced handles the answer to a call of advance: n is how many of the heads were replaced.
func (h *Heads) onAdvanced(a *advanced, heads map[string]Head, n string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !ok:
		h.metrics.wrote("failed", len(heads))
		a.failed = true
	case n != strconv.Itoa(len(heads)):
		h.metrics.wrote("conflict", len(heads))
		h.readSoonLocked(a.key)
	default:
		h.metrics.wrote("ok", len(heads))
		h.trace(a.key, heads, time.Now())
		for url, head := range heads {
			h.acceptLocked(a.key, url, head)
		}
	}
}
