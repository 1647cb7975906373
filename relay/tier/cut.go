package tier

import (
	"context"
	"time"

	"xdsrelay/shard"
)

const (
	// cutAfter is how long the origin has to be out of reach until this node says
	// so, and its keys go to others.
	cutAfter = 5 * time.Second
	// lookEvery is how often it is looked whether it is.
	lookEvery = 250 * time.Millisecond
)

// warm takes back that this node has not reached the origin since it started, once it has.
func (t *Tier) warm(ctx context.Context) {
	if t.cfg.Origin.AwaitReady(ctx) == nil {
		t.Announce(func(s *shard.Status) { s.Cold = false })
	}
}

// watchOrigin tells the others that this node cannot reach the origin, where it had
// reason to, and takes it back as soon as it can. It tries to then, since no key may
// be left that wants anything of the origin.
func (t *Tier) watchOrigin(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var since time.Time
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		wanted, ready := t.cfg.Origin.Reach()
		switch {
		case ready || !wanted:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= cutAfter:
			began := since
			t.cutSince.Store(&began)
			t.cut(ctx)
			t.cutSince.Store(nil)
			since = time.Time{}
		}
	}
}

// CutSince is since when the origin is out of reach of this node; zero if it is not, or
// if nobody has said so yet.
func (t *Tier) CutSince() time.Time {
	if since := t.cutSince.Load(); since != nil {
		return *since
	}
	return time.Time{}
}

// cut is a time in which the origin is out of reach.
func (t *Tier) cut(ctx context.Context) {
	t.cfg.Logger.Warn("the origin is out of reach of this node, and its keys go to others that reach it")
	t.Announce(func(s *shard.Status) { s.Cut = true })
	if t.cfg.Origin.AwaitReady(ctx) != nil {
		return // the end
	}
	t.cfg.Logger.Info("this node reaches the origin again")
	t.Announce(func(s *shard.Status) { s.Cut = false })
}
