package head

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"xdsrelay/relay/pause"
	"xdsrelay/shard/store"
)

// readInTurn is how many keys each round reads; the others wait for the next rounds.
const readInTurn = 2048

const (
	// confirmAfter is how long after a write its head is read again: after a failover in a cluster,
	// the head may be lost while another server still has the stamp.
	confirmAfter = time.Minute
	// missedWithin bounds how long a key is not read after hints may have been missed.
	missedWithin = time.Minute
)

// listen receives hints until the channel is closed. A hint only causes a read, and any of them may
// be lost: the stamps have the same information. Any program that may publish can forge one.
func (h *Heads) listen(hints <-chan store.Hint) {
	for hint := range hints {
		switch {
		case hint.Missed:
			if hint.Part < 0 {
				h.cfg.Listening(h.parts.Sharded())
			}
			h.noteMissed(hint.Part)
		case hint.Part < 0:
			if n, err := decodeLegacyHint(hint.Payload); err == nil {
				h.readSoon(n.Key)
			}
		default:
			h.hinted(hint)
		}
	}
}

// noteMissed records that hints of a bucket, or of all if part is negative, may have been missed.
func (h *Heads) noteMissed(part int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if part < 0 {
		h.noteMissedLocked()
	} else {
		h.board.eachKey(part, h.readSoonLocked)
	}
}

// noteMissedLocked records that hints may have been missed. The stamps show in which buckets, and
// are read soon. In case a stamp was lost as well, all keys are read within a minute.
func (h *Heads) noteMissedLocked() {
	if h.listening {
		for key := range h.followed {
			h.dueLocked(key, rand.N(missedWithin))
		}
	}
	h.listening, h.missed = true, true
	signal(h.fresh)
}

// hinted handles a hint about a bucket. A forged hint may have very many keys, so it is decoded
// without the lock, and the lock is released between chunks of keys.
func (h *Heads) hinted(hint store.Hint) {
	c, err := decodeChange(hint.Payload)
	if err != nil {
		return
	}
	keys := slices.DeleteFunc(c.keys, func(key string) bool { return bucketOf(key) != hint.Part })
	h.mu.Lock()
	h.board.explain(hint.Part, c.from, c.to)
	h.mu.Unlock()
	for some := range slices.Chunk(keys, readAtOnce) {
		h.mu.Lock()
		for _, key := range some {
			if o := h.owned[key]; o != nil && o.epoch > 0 && c.text == h.stamping {
				continue // written by this node
			}
			h.readSoonLocked(key)
		}
		h.mu.Unlock()
	}
}

// readSoon makes a key be read at once, if this node has it.
func (h *Heads) readSoon(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readSoonLocked(key)
}

// readSoonLocked makes a key be read at once, if this node has it.
func (h *Heads) readSoonLocked(key string) {
	if h.followed[key] != nil {
		h.unread[key] = struct{}{}
		signal(h.fresh)
	}
}

// check polls every few seconds which heads have changed, until ctx ends, and reads some keys at
// once.
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
			h.forget(h.readAll(ctx, keys))
			if hurry {
				timer.Reset(rand.N(h.cfg.Every / 4)) // not all nodes at the same moment
			}
			pause.For(ctx, batchDelay) // batches hints into one read
			continue
		case <-timer.C:
		}
		timer.Reset(h.every())
		h.mu.Lock()
		h.missed, h.hurried = false, false
		if len(h.unstamped) > 0 {
			signal(h.dirty)
		}
		h.retryAheadLocked()
		h.mu.Unlock()
		h.refresh()
		turn = h.round(ctx, turn)
	}
}

// every returns the time until the next round, which spreads nodes that started together.
func (h *Heads) every() time.Duration { return h.cfg.Every*3/4 + rand.N(h.cfg.Every/2) }

// takeUnread returns the keys to read at once, and whether the next round must be moved up.
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

// forget records that keys could not be read: the next round reads their buckets.
func (h *Heads) forget(keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		h.board.forget(key)
	}
	h.readOnceLocked(keys...)
}

// round checks the stamps and reads the keys that are due because of them, or because of the time.
// If stamps cannot be used, because Redis rejects them or some node of the tier does not set them,
// it also reads the keys after turn. It returns the last of those.
func (h *Heads) round(ctx context.Context, turn string) string {
	now, err := h.look(ctx)
	if ctx.Err() != nil {
		return turn
	}
	var keys []string
	withoutStamps := err != nil || h.cfg.Unstamped()
	if withoutStamps {
		keys, turn = h.inTurn(turn)
	}
	h.noteWithoutStamps(withoutStamps)
	changed, due := h.due(now, readInTurn-len(keys))
	failed := h.readAll(ctx, append(keys, due...))
	h.forget(failed)
	h.finishRound(now, changed, failed)
	return turn
}

// noteWithoutStamps records whether stamps are complete. When they are again, all keys are read
// once more: the last head may have been written without a stamp.
func (h *Heads) noteWithoutStamps(withoutStamps bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.withoutStamps && !withoutStamps {
		for key := range h.followed {
			h.dueLocked(key, 0)
		}
	}
	h.withoutStamps = withoutStamps
}

// look reads the stamps: nil if none has changed since the node knew all heads.
func (h *Heads) look(ctx context.Context) (*stamps, error) {
	h.mu.Lock()
	last := h.board.any
	h.mu.Unlock()
	r, err := h.cfg.Store.Run(ctx, look, []string{stampsName(h.cfg.Store)}, last)
	if err != nil || r.IsNil() {
		return nil, err
	}
	now, err := stampsIn(r)
	return &now, err
}

// inTurn returns the keys after turn, as many as one round may read, and the last of them.
func (h *Heads) inTurn(turn string) (keys []string, last string) {
	h.mu.Lock()
	for key := range h.followed {
		keys = append(keys, key)
	}
	h.mu.Unlock()
	if len(keys) <= readInTurn {
		return keys, ""
	}
	slices.Sort(keys)
	from, _ := slices.BinarySearch(keys, turn+"\x00")
	keys = append(keys[from:], keys[:from]...)[:readInTurn]
	return keys, keys[len(keys)-1]
}

// due returns the buckets that have changed, as many as there is room for, and the keys to read:
// the keys of these buckets, those whose time has come, and those with deferred work of this node.
func (h *Heads) due(now *stamps, room int) (changed []int, keys []string) {
	at := time.Now()
	all := make(map[string]struct{})
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, o := range h.owned {
		if o.deferred || o.epoch == 0 && !at.Before(o.after) {
			all[key] = struct{}{}
		}
	}
	if now != nil {
		for _, n := range h.board.changed(*now) {
			if len(all) >= room {
				break
			}
			changed = append(changed, n)
			for key := range h.board.own[n].keys {
				all[key] = struct{}{}
			}
		}
	}
	for key, f := range h.followed {
		if len(all) < room && (!at.Before(f.due) || !f.lower.IsZero()) {
			all[key] = struct{}{}
		}
	}
	for key := range all {
		keys = append(keys, key)
	}
	return changed, keys
}

// finishRound records that the keys of changed buckets have been read, except for those that
// failed. An owner sets a missing stamp: otherwise no node would notice that Redis has lost
// everything.
func (h *Heads) finishRound(now *stamps, changed []int, failed []string) {
	if now == nil {
		return
	}
	bad := make(map[int]bool)
	for _, key := range failed {
		bad[bucketOf(key)] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range changed {
		if !bad[n] {
			h.board.markKnown(n, now.buckets[n])
		}
	}
	if len(h.board.changed(*now)) == 0 {
		h.board.any = now.all
	}
	for key := range h.owned {
		if n := bucketOf(key); now.buckets[n] == "" && h.unstamped[n] == nil {
			h.unstamped[n] = make(map[string]struct{})
			signal(h.dirty)
		}
	}
}
