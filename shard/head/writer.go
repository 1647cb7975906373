package head

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel/attribute"

	"xdsrelay/relay/pause"
	"xdsrelay/relay/resource"
	"xdsrelay/shard/store"
)

// Heads are written asynchronously: a change puts its key into a queue, in which each key is at
// most once, and the writer reads the present state of the tables. So the number of owned keys
// bounds the queue, and after an outage of Redis the newest state is written.

const (
	// atOnce is how many keys one pipeline to Redis has.
	atOnce = 64
	// batchDelay is how long changes are collected between two exchanges.
	batchDelay = 10 * time.Millisecond
	// Pauses between two attempts while Redis accepts nothing.
	firstRetry, lastRetry = 100 * time.Millisecond, 3 * time.Second
)

func retryPauses() backoff.ExponentialBackOff {
	return backoff.ExponentialBackOff{InitialInterval: firstRetry, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: lastRetry}
}

// take removes the next keys from the queue. It skips those that this node owns no more.
func (h *Heads) take() []*owned {
	for {
		next := h.queue.take(atOnce)
		if some := h.stillOwned(next); len(some) > 0 || len(next) == 0 {
			return some
		}
	}
}

func (h *Heads) stillOwned(some []*owned) []*owned {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(some, func(o *owned) bool { return h.owned[o.key] != o })
}

// write writes the keys in the queue until ctx ends.
func (h *Heads) write(ctx context.Context) {
	pauses := retryPauses()
	for {
		some := h.take()
		if advanced := h.advanceAll(ctx); len(some) == 0 && !advanced {
			h.stampAll(ctx)
			select {
			case <-h.dirty:
			case <-ctx.Done():
				return
			}
			if !pause.For(ctx, batchDelay) {
				return
			}
			continue
		}
		claims, unclaimed := h.claim(ctx, some)
		writes, unwritten := h.writeDue(ctx, some)
		h.stampAll(ctx)
		failed := slices.Concat(unclaimed, unwritten)
		if len(failed) == 0 || len(failed) < claims+writes {
			// Redis answers: keys that it rejects do not delay the others.
			h.deferAll(failed)
			pauses.Reset()
			continue
		}
		for _, o := range failed {
			h.queue.add(o)
		}
		if !pause.For(ctx, pauses.NextBackOff()) {
			return
		}
	}
}

// deferAll leaves keys to the next check that can read them.
func (h *Heads) deferAll(some []*owned) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range some {
		o.deferred = true
	}
}

// claim claims those keys that this node has not claimed yet. It returns how many these were, and
// which of them failed.
func (h *Heads) claim(ctx context.Context, some []*owned) (tried int, failed []*owned) {
	now := time.Now()
	var mine []*owned
	var calls []store.Call
	h.mu.Lock()
	for _, o := range some {
		if o.epoch == 0 && !now.Before(o.after) {
			mine, calls = append(mine, o), append(calls, claimCall(h.cfg.Store, o.key))
			h.noteUnstampedLocked(o.key) // also if the answer is lost
		}
	}
	h.mu.Unlock()
	results, _ := h.cfg.Store.RunEach(ctx, claim, calls)
	for i, r := range results {
		k, err := h.read(mine[i].key, r.Reply)
		if r.Err != nil || err != nil {
			h.metrics.claimed("failed")
			failed = append(failed, mine[i])
			continue
		}
		h.metrics.claimed("ok")
		h.mu.Lock()
		var known map[string]Head
		if f := h.followed[mine[i].key]; f != nil {
			known = f.heads
		}
		mine[i].claimed(k, known)
		h.mu.Unlock()
		h.acceptAll(mine[i].key, k)
	}
	return len(calls), failed
}

// writeDue writes the due heads of some keys. It returns how many keys had any, and which of them
// failed.
func (h *Heads) writeDue(ctx context.Context, some []*owned) (tried int, failed []*owned) {
	type job struct {
		*owned
		epoch uint64
		heads map[string]Head
	}
	var jobs []job
	var calls []store.Call
	for _, o := range some {
		now, are := time.Now(), editions(o.group)
		h.mu.Lock()
		if o.epoch > 0 {
			if heads := o.due(are, h.cfg.Node, h.cfg.Wait, now); len(heads) > 0 {
				o.writes(heads)
				h.noteUnstampedLocked(o.key)
				jobs = append(jobs, job{o, o.epoch, heads})
				calls = append(calls, writeCall(h.cfg.Store, h.cfg.Token, o.key, o.epoch, heads))
			}
			if o.deferred {
				o.again.event()
			}
		}
		h.mu.Unlock()
	}
	results, _ := h.cfg.Store.RunEach(ctx, write, calls)
	for i, r := range results {
		j := jobs[i]
		epoch, err := r.Text()
		if r.Err != nil || err != nil {
			h.metrics.wrote("failed", len(j.heads))
			failed = append(failed, j.owned)
			continue
		}
		is, _ := strconv.ParseUint(epoch, 10, 64) // a script wrote it
		h.onWritten(j.owned, j.epoch, is, j.heads)
	}
	return len(calls), failed
}

// noteUnstampedLocked records that the head of a key is about to be written.
func (h *Heads) noteUnstampedLocked(key string) {
	n := bucketOf(key)
	if h.unstamped[n] == nil {
		h.unstamped[n] = make(map[string]struct{})
	}
	h.unstamped[n][key] = struct{}{}
}

// stampAll sets the stamps of the buckets whose heads were written. If that fails, it is tried
// again with the next write, and after the next round.
func (h *Heads) stampAll(ctx context.Context) {
	h.mu.Lock()
	if len(h.unstamped) == 0 {
		h.mu.Unlock()
		return
	}
	taken := h.unstamped
	h.unstamped = make(map[int]map[string]struct{})
	h.stamping = newText()
	args, order := h.stampArgs(h.stamping, taken)
	h.mu.Unlock()
	r, err := h.cfg.Store.Run(ctx, stamp, []string{stampsName(h.cfg.Store)}, args...)
	pairs, bad := r.Texts()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil || bad != nil || len(pairs) != 2*len(order) {
		for n, keys := range taken {
			if h.unstamped[n] == nil {
				h.unstamped[n] = make(map[string]struct{})
			}
			maps.Copy(h.unstamped[n], keys)
		}
		return
	}
	for i, n := range order {
		h.board.explain(n, pairs[2*i], pairs[2*i+1])
	}
}

// onWritten handles the answer to a write of an epoch. is is the epoch of the key.
func (h *Heads) onWritten(o *owned, epoch, is uint64, heads map[string]Head) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.epoch != epoch {
		return // another node is already known to have the key
	}
	if is > epoch {
		h.metrics.wrote("conflict", len(heads))
		h.loseLocked(o, now)
		return
	}
	h.metrics.wrote("ok", len(heads))
	h.trace(o.key, heads, now)
	o.wrote(heads, now)
	h.dueLocked(o.key, confirmAfter)
	for url, head := range heads {
		h.acceptLocked(o.key, url, head)
	}
}

// trace records spans from the time when a head was made until Redis has it.
func (h *Heads) trace(key string, heads map[string]Head, now time.Time) {
	for url, head := range heads {
		if head.Trace != "" && now.Sub(head.At) <= tracedFor { // later it is only written again
			h.cfg.Tracer.Below(head.Trace, "head", nil, head.At, now, attribute.String("xds.type", resource.TypeLabel(url)),
				attribute.String("xdsrelay.key", key), attribute.String("xds.version", head.Version))
		}
	}
}

// loseLocked records that another node has claimed a key. The check claims it again later.
func (h *Heads) loseLocked(o *owned, now time.Time) {
	o.lose(now)
	h.cfg.Logger.Debug("another node claimed a key that this node owns", "key", o.key, "again_after", o.after.Sub(now))
}
