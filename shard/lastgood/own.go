package lastgood

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
	"xdsrelay/shard/store"
)

const (
	// checkEvery is how often it is looked whether the records of a key are still
	// there, give or take a quarter: a Redis may have been emptied.
	checkEvery = time.Minute
	// refreshEvery is how often a record is written again that has not changed, so
	// that it does not come to its end.
	refreshEvery = keptFor / 4
	// beatEvery is how often one is that has only got new lifetimes.
	beatEvery = 10 * time.Second
	// longestPause bounds the pause before what failed is tried again.
	longestPause = 30 * time.Second
)

// owned is a key that this node owns, and what of it is in the store.
type owned struct {
	keeper *Keeper
	group  *cache.Group
	key    string
	types  map[string]*stored // by type URL

	due      time.Time // when there is something to write, as far as is known; zero for nothing
	check    time.Time // when to look what is there
	failures int       // in a row
}

// stored is what is known of the record of one type.
type stored struct {
	mark    string    // of what is in the store; empty if that is not known
	at      time.Time // when it was written
	updates uint64    // how many answers of origins were in it
	lasting bool      // it has lifetimes
	// refused is what would have been the mark of something that is not kept, and
	// refusal why; empty if it is.
	refused, refusal string
	// open are resources that may be kept without encryption, of those that were there
	// when this was looked at last: looking into one costs more than writing it.
	open map[*resource.Resource]struct{}
}

// Own keeps a key as long as this node owns it, that is until ctx ends.
func (k *Keeper) Own(ctx context.Context, g *cache.Group) {
	news, stop := g.Changes()
	defer stop()
	o := &owned{keeper: k, group: g, key: string(g.Key), types: make(map[string]*stored), check: time.Now()}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := o.check
		if !o.due.IsZero() && o.due.Before(next) {
			next = o.due
		}
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			o.finish(ctx)
			return
		case <-news:
			if o.due.IsZero() {
				o.due = time.Now().Add(k.cfg.Delay)
			}
		case now := <-timer.C:
			if !now.Before(o.check) {
				o.look(ctx)
			}
			if !o.due.IsZero() && !now.Before(o.due) {
				o.save(ctx)
			}
		}
	}
}

// finishTime bounds what is written at the end.
const finishTime = time.Second

// finish writes what is still to be written as the node ends, or another one takes
// the key over: where that one was quicker, Redis knows.
func (o *owned) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer cancel()
	o.save(ctx)
}

// look finds out what the store has of the key, so that what is missing is written.
func (o *owned) look(ctx context.Context) {
	o.check = time.Now().Add(checkEvery*3/4 + rand.N(checkEvery/2))
	there, err := o.keeper.cfg.Store.Marks(ctx, o.key)
	if err != nil {
		return // writing finds out, if there is anything to write
	}
	for url, mark := range there {
		w := o.of(url)
		w.mark, w.at = mark.Text, mark.At
		w.refused = "" // what is not kept must not be there: a write may have come late
	}
	for url, w := range o.types {
		if _, ok := there[url]; !ok {
			w.mark = ""
		}
	}
	if o.due.IsZero() {
		o.due = time.Now().Add(o.keeper.cfg.Delay)
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

// save writes what has changed. What fails is tried again after a pause that grows.
func (o *owned) save(ctx context.Context) {
	o.due = time.Time{}
	var failed error
	for _, t := range o.group.Tables() {
		if err := o.saveTable(ctx, t); err != nil {
			failed = err
			if errors.Is(err, store.ErrDown) || ctx.Err() != nil {
				break
			}
		}
	}
	if failed == nil {
		o.failures = 0
		return
	}
	pause := min(time.Second<<min(o.failures, 10), longestPause)
	o.failures++
	o.due = time.Now().Add(pause/2 + rand.N(pause))
}

// markOf stands for the content of a record, and for how it is written.
func (k *Keeper) markOf(e cache.Edition) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %x %t %q %q", sealedVersion, e.Digest, e.Complete, e.Version, k.cfg.Keys.current()))
	if e.Errored != (resource.Digest{}) {
		sum = sha256.Sum256(append(sum[:], e.Errored[:]...))
	}
	return hex.EncodeToString(sum[:12])
}

// mayBeOld reports whether the store may have something newer. The tier head alone does not
// say so: where Redis takes no writes, or the owner before has gone, it may be old itself, for
// hours, while the origin answers this node. An owner replaces such a head, too, as soon as it
// can.
func mayBeOld(e cache.Edition) bool { return e.Behind && !e.Confirmed }

func (o *owned) saveTable(ctx context.Context, t *cache.Table) error {
	k, e := o.keeper, t.Edition()
	w, mark := o.of(t.Type.URL), k.markOf(e)
	since := time.Since(w.at)
	beats := w.lasting && w.updates != e.Updates && since >= beatEvery
	if mayBeOld(e) {
		return nil
	}
	if mark == w.refused || w.mark == mark && !beats && since < refreshEvery {
		return nil
	}
	if !take(ctx, k.writing) {
		return ctx.Err()
	}
	defer func() { <-k.writing }()
	kept, ok := t.Kept()
	if e = kept.Edition; !ok || mayBeOld(e) {
		return nil
	}
	mark = k.markOf(e) // of what is written: there may have been changes since it was looked at
	sealed, err := k.seal(o.key, kept, w)
	if err != nil {
		return o.refuse(ctx, t, w, mark, err)
	}
	w.mark = "" // whatever becomes of it
	err = k.cfg.Store.Save(ctx, o.key, t.Type.URL, mark, sealed)
	k.noteWrite(err)
	if err != nil {
		k.metrics.wrote(outcomeOf(err))
		return err
	}
	k.metrics.wrote(outcomeOK)
	k.metrics.size(len(sealed))
	if w.refusal != "" {
		w.refused, w.refusal = "", ""
		k.cfg.Logger.Info("a type of a key is kept again", "key", o.key, "type", t.Type.URL)
	}
	w.mark, w.at, w.updates = mark, time.Now(), e.Updates
	w.lasting = slices.ContainsFunc(kept.Resources, func(r cache.KeptResource) bool { return !r.Expires.IsZero() })
	return nil
}

// seal makes a record, if the type is kept.
func (k *Keeper) seal(key string, kept cache.Kept, w *stored) ([]byte, error) {
	if k.cfg.Keys == nil && k.mustEncrypt(kept.Type) {
		return nil, errUnencrypted
	}
	if k.cfg.Keys == nil && w.holdsSecrets(kept.Resources) {
		return nil, errHoldsSecrets
	}
	return k.sealer.seal(key, kept.Type.URL, Encode(key, time.Now(), kept))
}

// holdsSecrets reports whether any of the resources holds what must not be written in
// the clear. All of the type then are not kept: without that one the rest would say
// that there is none.
func (w *stored) holdsSecrets(all []cache.KeptResource) bool {
	var reader redact.Redactor
	open := make(map[*resource.Resource]struct{}, len(all))
	found := false
	for _, one := range all {
		_, known := w.open[one.Resource]
		switch {
		case known || !found && !reader.Holds(one.Resource):
			open[one.Resource] = struct{}{}
		default:
			found = true
		}
	}
	w.open = open
	return found
}

// refuse notes that a type is not kept, and removes what was kept of it before: that
// is not its state any more. It is logged once for each reason.
func (o *owned) refuse(ctx context.Context, t *cache.Table, w *stored, mark string, why error) error {
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
	if w.refusal != why.Error() {
		k.cfg.Logger.Warn("a type of a key is not kept as last known good state", "key", o.key, "type", t.Type.URL, "reason", why)
	}
	w.mark, w.refused, w.refusal, w.lasting = "", mark, why.Error(), false
	return nil
}
