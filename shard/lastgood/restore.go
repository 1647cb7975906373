package lastgood

import (
	"context"
	"errors"
	"fmt"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/pause"
	"xdsrelay/shard"
)

// Restore applies the records of a key to a group that is new in this process; for other groups it
// does nothing. It returns when that is done, or after the wait. In the latter case it continues
// until it is done, ctx ends, or the control planes answer.
func (k *Keeper) Restore(ctx context.Context, g *cache.Group) {
	if g.Private() {
		return
	}
	g.Restore(func() {
		done := make(chan struct{})
		k.mu.Lock()
		if k.closed {
			k.mu.Unlock()
			return
		}
		k.loads.Go(func() {
			defer close(done)
			k.restore(ctx, g)
		})
		k.mu.Unlock()
		timer := time.NewTimer(k.cfg.Wait)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		case <-ctx.Done():
		}
	})
}

func (k *Keeper) restore(ctx context.Context, g *cache.Group) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.life, cancel)()
	for pauses := storePauses(); ; {
		all, err := k.Read(ctx, string(g.Key))
		k.apply(ctx, g, all)
		if err == nil || g.Upstream().Connected {
			return
		}
		if !pause.For(ctx, pauses.NextBackOff()) {
			return
		}
	}
}

// apply applies the records of a key to its group, once it is known whether the tier heads prove that they are
// old: clients would be sent them in between. Other keys are read meanwhile.
func (k *Keeper) apply(ctx context.Context, g *cache.Group, all []cache.Snapshot) {
	if len(all) == 0 {
		return
	}
	if k.cfg.AwaitHeads != nil {
		k.cfg.AwaitHeads(ctx, string(g.Key))
	}
	oldest := all[0].AsOf
	for i := range all {
		g.Renew(all[i : i+1]) // another node may have sent something newer
		if all[i].AsOf.Before(oldest) {
			oldest = all[i].AsOf
		}
	}
	k.cfg.Logger.Info("last known good state of a key restored; serving it until the control plane answers", "key", g.Key, "types", len(all), "from", oldest)
}

// Read returns the records of a key.
func (k *Keeper) Read(ctx context.Context, key string) (all []cache.Snapshot, err error) {
	if !take(ctx, k.reading) {
		return nil, ctx.Err()
	}
	defer func() { <-k.reading }()
	err = k.read(ctx, key, func(kept cache.Snapshot) { all = append(all, kept) })
	return all, err
}

// read reads the records of a key. It skips unusable ones.
func (k *Keeper) read(ctx context.Context, key string, take func(cache.Snapshot)) error {
	err := k.cfg.Store.Load(ctx, key, func(sealed []byte) {
		kept, at, err := k.open(key, sealed)
		switch {
		case errors.Is(err, errBomb):
			k.metrics.read(outcomeTooLarge)
			k.unusable(key, err)
			return
		case err != nil:
			k.metrics.read(outcomeUnusable)
			k.unusable(key, err)
			return
		case k.cfg.Clock.Now().Sub(at) > keptFor:
			k.metrics.read(outcomeExpired)
			return
		}
		k.metrics.read(outcomeOK)
		kept.AsOf, kept.Recorded = shard.Past(k.cfg.Clock.Moment(at), time.Now()), true
		kept = expiring(kept, k.cfg.Clock.Moment)
		take(kept)
	})
	if err != nil {
		k.metrics.read(outcomeFailed)
	}
	return err
}

// open opens and decodes a record.
func (k *Keeper) open(key string, sealed []byte) (kept cache.Snapshot, at time.Time, err error) {
	url, record, err := k.sealer.open(key, sealed)
	if err == nil {
		kept, at, err = Decode(record, key, url)
	}
	if err != nil && url != "" {
		err = fmt.Errorf("type %s: %w", url, err)
	}
	return kept, at, err
}

// unusable logs a record that cannot be used, once a minute for each reason.
func (k *Keeper) unusable(key string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.logged) > 100 {
		clear(k.logged)
	}
	if time.Since(k.logged[err.Error()]) < time.Minute {
		return
	}
	k.logged[err.Error()] = time.Now()
	k.cfg.Logger.Error("a last known good record is unusable and is not served; others may be affected", "key", key, "error", err)
}
