package admin

import (
	"context"
	"sync"
	"time"

	"xdsrelay/relay/ops"
)

// lookPause is how long an answer is good: several pages that are open cost a tier
// what one costs.
const lookPause = time.Second

// watcher looks at a tier when it is asked to, and seldom enough.
type watcher struct {
	cfg    Config // fixed
	glance glance // of the rollouts

	mu sync.Mutex
	// Guarded by mu.
	at      time.Time
	last    ops.Live
	members ops.Members
}

// look asks all nodes, unless that was done just now. Who comes meanwhile waits for the
// answer, which no single one of them can break off.
func (v *watcher) look(ctx context.Context) ops.Live {
	last, _ := v.observe(ctx)
	return last
}

// observe is look, with what it is made of.
func (v *watcher) observe(ctx context.Context) (ops.Live, ops.Members) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Since(v.at) < lookPause {
		return v.last, v.members
	}
	answers, silent := v.cfg.Tier.Nodes(context.WithoutCancel(ctx))
	v.members = v.cfg.Tier.Members()
	v.last = (&ops.Observed{Title: v.cfg.Title, Members: v.members, Answers: answers, Silent: silent, Origins: v.cfg.Origins(), TraceURL: v.cfg.TraceURL}).Live()
	v.at = time.Now()
	return v.last, v.members
}

// glance is an answer about the rollouts of all nodes, that is good for a moment.
type glance struct {
	mu   sync.Mutex
	at   time.Time   // guarded by mu
	last ops.Rollout // guarded by mu
}

// rollouts asks all nodes to which keys something happens, unless that was done just now.
func (v *watcher) rollouts(ctx context.Context) ops.Rollout {
	g := &v.glance
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.at) >= lookPause {
		g.last = v.cfg.Tier.Rollout.Active(context.WithoutCancel(ctx))
		g.at = time.Now()
	}
	return g.last
}
