package lastgood

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"xdsrelay/relay/cache"
	tierevents "xdsrelay/relay/events"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
	"xdsrelay/shard/store"
)

const (
	// checkEvery is the interval between checks whether the records of a key still exist, ± a
	// quarter: a Redis may have been emptied.
	checkEvery = time.Minute
	// refreshEvery is the interval at which an unchanged record is written again, so that it does
	// not expire.
	refreshEvery = keptFor / 4
	// ttlEvery is the shortest interval between writes of a record that differs only in renewed
	// TTLs.
	ttlEvery = 10 * time.Second
	// longestPause bounds, before jitter, the pause before a failed write or read is retried.
	longestPause = 30 * time.Second
)

func storePauses() backoff.ExponentialBackOff {
	return backoff.ExponentialBackOff{InitialInterval: time.Second, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: longestPause}
}

// owned is a key that this node owns, and its state in the store.
type owned struct {
	// Fixed after construction.
	keeper *Keeper
	group  *cache.Group
	key    string

	// Owned by the turn of the key, or by the one who has ended it.
	types  map[string]*stored         // by type URL
	pauses backoff.ExponentialBackOff // after failed writes

	// Guarded by schedule.mu.
	plan    plan
	place   int      // in the timeline
	running *running // nil if it has no turn
}

// stored is what is known of the record of one type.
type stored struct {
	mark    string    // of the record in the store; empty if that is not known
	at      time.Time // when it was written
	updates uint64    // how many answers of control planes were applied by then
	hasTTLs bool      // it has TTLs
	// skippedMark is the mark of content that is not stored, and skipReason why; empty if it is
	// stored.
	skippedMark, skipReason string
	// plain are resources that need no encryption, as of the last check: checking one costs more
	// than writing it.
	plain map[*resource.Resource]struct{}
}

// Own stores a key as long as this node owns it, that is until end is called. Own does not block;
// end writes pending changes, which takes a second at most where the store honors the context of its
// calls. Keys may end at the same time. A key must not be owned twice at the same time.
func (k *Keeper) Own(g *cache.Group) (end func()) {
	o := &owned{
		keeper: k, group: g, key: string(g.Key), types: make(map[string]*stored), pauses: storePauses(),
		plan: plan{check: time.Now()}, place: nowhere,
	}
	stop := g.OnChange(func() { k.schedule.changed(o) })
	k.schedule.add(o)
	return func() {
		stop()
		k.schedule.end(o)
		o.finish()
	}
}

// Lost is called if the store may have lost what was written of a key: it is checked at once, and what is missing
// is written. It does not block. Keys that this node does not own are ignored.
func (k *Keeper) Lost(key string) { k.schedule.lost(key) }

// finishTime bounds the last write.
const finishTime = time.Second

// finish writes pending changes when the node ends, or another one becomes the owner. If that one
// has already written, Redis rejects this write.
func (o *owned) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), finishTime)
	defer cancel()
	_ = o.save(ctx) // the next owner writes what this one could not
}

// do is a turn of the key.
func (o *owned) do(ctx context.Context, t turn) outcome {
	is := outcome{turn: t}
	if t.check {
		o.look(ctx)
	}
	if !t.write {
		return is
	}
	if is.failed = o.save(ctx) != nil; is.failed {
		is.pause = o.pauses.NextBackOff()
	} else {
		o.pauses.Reset()
	}
	return is
}

// look checks what the store has of the key, so that missing records are written.
func (o *owned) look(ctx context.Context) {
	there, err := o.keeper.cfg.Store.Marks(ctx, o.key)
	if err != nil {
		return // a write notices the error, if there is anything to write
	}
	for url, mark := range there {
		w := o.of(url)
		w.mark, w.at = mark.Text, mark.At
		w.skippedMark = "" // a skipped record must not exist: a write may have arrived late
	}
	for url, w := range o.types {
		if _, ok := there[url]; !ok {
			w.mark = ""
		}
	}
}

func (o *owned) of(url string) *stored {
	w := o.types[url]
	if w == nil {
		w = &stored{}
		o.types[url] = w
	}
	return w
}

// save writes changes, and returns the last error.
func (o *owned) save(ctx context.Context) (failed error) {
	for _, t := range o.group.Tables() {
		if err := o.saveTable(ctx, t); err != nil {
			failed = err
			if errors.Is(err, store.ErrDown) || ctx.Err() != nil {
				break
			}
		}
	}
	return failed
}

// markOf identifies the content of a record, and how it is written.
func (k *Keeper) markOf(e cache.TableDigest) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %x %t %q %q", sealedVersion, e.Digest, e.Wildcard == cache.WildcardKnown, e.Version, k.cfg.Keys.current()))
	if e.Errored != (resource.Digest{}) {
		sum = sha256.Sum256(append(sum[:], e.Errored[:]...))
	}
	return hex.EncodeToString(sum[:12])
}

// mayBeOld reports whether the store may have something newer. The tier head alone does not show
// that: if Redis accepts no writes, or the previous owner has disappeared, the head itself may be
// hours old while the control plane answers this node. An owner also replaces such a head as soon
// as it can.
func mayBeOld(e cache.TableDigest) bool { return e.Standing.Behind() && !e.Confirmed }

func (o *owned) saveTable(ctx context.Context, t *cache.Table) error {
	k, e := o.keeper, t.Digest()
	w, mark := o.of(t.Type.URL), k.markOf(e)
	since := time.Since(w.at)
	newTTLs := w.hasTTLs && w.updates != e.Updates && since >= ttlEvery
	if mayBeOld(e) || k.cfg.Unproven != nil && k.cfg.Unproven(o.group, t.Type) {
		return nil
	}
	if mark == w.skippedMark || w.mark == mark && !newTTLs && since < refreshEvery {
		return nil
	}
	if !take(ctx, k.writing) {
		return ctx.Err()
	}
	defer func() { <-k.writing }()
	kept, ok := t.Snapshot()
	if e = kept.TableDigest; !ok || mayBeOld(e) {
		return nil
	}
	mark = k.markOf(e) // of the content to write, which may have changed since the check
	sealed, err := k.seal(o.key, kept, w)
	if err != nil {
		return o.skip(ctx, t, w, mark, err)
	}
	w.mark = "" // unknown until the write succeeds
	err = k.cfg.Store.Save(ctx, o.key, t.Type.URL, mark, sealed)
	k.noteWrite(err)
	if err != nil {
		k.metrics.wrote(outcomeOf(err))
		return err
	}
	k.metrics.wrote(outcomeOK)
	k.metrics.size(len(sealed))
	if w.skipReason != "" {
		w.skippedMark, w.skipReason = "", ""
		k.cfg.Logger.Info("a type of a key is stored as last known good again", "key", o.key, "type", t.Type.URL)
	}
	w.mark, w.at, w.updates = mark, time.Now(), e.Updates
	w.hasTTLs = slices.ContainsFunc(kept.Resources, func(r cache.SnapshotResource) bool { return !r.Expires.IsZero() })
	return nil
}

// seal makes a record, if the type may be stored.
func (k *Keeper) seal(key string, kept cache.Snapshot, w *stored) ([]byte, error) {
	if k.cfg.Keys == nil && k.mustEncrypt(kept.Type) {
		return nil, errUnencrypted
	}
	if k.cfg.Keys == nil && w.holdsSecrets(kept.Resources) {
		return nil, errHoldsSecrets
	}
	return k.sealer.seal(key, kept.Type.URL, EncodeNow(k.cfg.Clock, key, kept))
}

// holdsSecrets reports whether any of the resources has content that must not be written
// unencrypted. Then the whole type is not stored: without that resource the others would imply that
// it does not exist.
func (w *stored) holdsSecrets(all []cache.SnapshotResource) bool {
	var reader redact.Redactor
	plain := make(map[*resource.Resource]struct{}, len(all))
	found := false
	for _, one := range all {
		_, known := w.plain[one.Resource]
		switch {
		case known || !found && !reader.Holds(one.Resource):
			plain[one.Resource] = struct{}{}
		default:
			found = true
		}
	}
	w.plain = plain
	return found
}

// skip records that a type is not stored, and removes its earlier record, which is outdated. It is
// logged once for each reason.
func (o *owned) skip(ctx context.Context, t *cache.Table, w *stored, mark string, why error) error {
	k := o.keeper
	if err := k.cfg.Store.Save(ctx, o.key, t.Type.URL, "", nil); err != nil {
		k.metrics.wrote(outcomeOf(err))
		return err
	}
	if errors.Is(why, errTooLarge) {
		k.metrics.wrote(outcomeTooLarge)
	} else {
		k.metrics.wrote(outcomeUnencrypted)
	}
	if w.skipReason != why.Error() {
		k.cfg.Logger.Warn("a type of a key is not stored as last known good", tierevents.Key, tierevents.LastGoodNotStored, "key", o.key, "type", t.Type.URL, "reason", why)
	}
	w.mark, w.skippedMark, w.skipReason, w.hasTTLs = "", mark, why.Error(), false
	return nil
}
