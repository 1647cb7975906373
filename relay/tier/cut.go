package tier

import (
	"context"
	"time"

	"xdsrelay/relay/events"
	"xdsrelay/relay/pause"
	"xdsrelay/shard"
)

const (
	// cutAfter is how long the origin has to be unreachable until this node announces it, and
	// its keys move to other nodes.
	cutAfter = 5 * time.Second
	// lookEvery is the interval between two checks of that.
	lookEvery = 500 * time.Millisecond
)

// warm waits until this node reaches the origin for the first time, and announces that it is no
// longer cold.
func (t *Tier) warm(ctx context.Context) {
	if t.cfg.Origin.AwaitReady(ctx) == nil {
		t.Announce(func(s *shard.Status) { s.Cold = false })
	}
}

// watchOrigin announces that this node cannot reach the control plane although keys need it, and withdraws
// that as soon as it can. Until then it keeps trying to connect: all keys may have moved to other
// nodes, so nothing else would.
func (t *Tier) watchOrigin(ctx context.Context) {
	var since time.Time
	for pause.For(ctx, pause.Next(lookEvery)) {
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

// CutSince returns since when this node cannot reach the control plane; zero if it can, or if this has not
// been announced yet.
func (t *Tier) CutSince() time.Time {
	if since := t.cutSince.Load(); since != nil {
		return *since
	}
	return time.Time{}
}

// cut announces that the origin is unreachable, and returns when it is reachable again or ctx ends.
func (t *Tier) cut(ctx context.Context) {
	t.cfg.Logger.Warn("this node cannot reach the control plane; its keys move to nodes that can", events.Key, events.NodeCutOff)
	t.Announce(func(s *shard.Status) { s.Cut = true })
	if t.cfg.Origin.AwaitReady(ctx) != nil {
		return // ctx has ended
	}
	t.cfg.Logger.Info("this node can reach the control plane again", events.Key, events.NodeReconnected)
	t.Announce(func(s *shard.Status) { s.Cut = false })
}
