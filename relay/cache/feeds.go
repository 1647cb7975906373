package cache

import (
	"context"
	"errors"
	"time"

	"xdsrelay/relay/cache/link"
)

// streamState is the state of one upstream stream of a group, whether or not it is open.
type streamState struct {
	// Guarded by the cache's mu.
	feed *Feed // nil while the group is idle, or the stream has no demand

	// Guarded by the group's mu.
	link     link.Link
	listener chan<- struct{} // the feed's news; nil without a feed
	needs    chan<- struct{} // see Feed.Needs; nil without a feed
	verdicts []Verdict       // see Feed.TakeVerdicts
}

// Upstream is the state of a stream to a control plane.
type Upstream struct {
	// Connected says that a stream is established; Since is when this state began.
	Connected bool
	Since     time.Time
	// Err is why there is no stream; nil during the first attempt.
	Err error
}

var (
	errIdle     = errors.New("the key has had no clients for the linger time")
	errUnwanted = errors.New("no client has subscribed to anything of this control plane for the linger time")
)

// Upstream returns the combined state of the upstream streams: connected if all streams with demand
// are.
func (g *Group) Upstream() Upstream {
	if len(g.streams) == 1 {
		return g.upstreamOf(0)
	}
	all := Upstream{Connected: true}
	var errs []error
	for i := range g.streams {
		up := g.upstreamOf(i)
		if !g.hasDemand(i) {
			continue
		}
		all.Connected = all.Connected && up.Connected
		if up.Since.After(all.Since) {
			all.Since = up.Since
		}
		errs = append(errs, up.Err)
	}
	all.Err = errors.Join(errs...)
	return all
}

func (g *Group) upstreamOf(i int) Upstream {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := &g.streams[i].link
	return Upstream{Connected: l.IsUp(), Since: l.Since(), Err: l.Err()}
}

// hasDemand reports whether a stream has any demand.
func (g *Group) hasDemand(i int) bool {
	for _, t := range g.Tables() {
		t.mu.RLock()
		n := t.core.demand.Stream(i).Wanted()
		t.mu.RUnlock()
		if n > 0 {
			return true
		}
	}
	return false
}

func (g *Group) setUpstream(f *Feed, err error) {
	g.mu.Lock()
	if f.ctx.Err() != nil { // the cause of the end says more
		g.mu.Unlock()
		return
	}
	var effect link.Effect
	l, now := &g.streams[f.stream].link, time.Now()
	if err == nil {
		effect = l.Up(now)
	} else {
		effect = l.Down(err, now)
	}
	compares := l.Others.Awaited()
	g.mu.Unlock()
	if effect&link.News != 0 {
		g.signalNeeds()
	}
	if err != nil {
		g.forgetAssumed(f.stream)
		g.restoreWanted(f.stream)
		if !compares {
			g.release(f.stream)
		}
	} else {
		g.forgetLocalErrors(f.stream)
	}
	if effect&link.Back != 0 {
		g.wakePeers()
	}
}

// anyStream is the set of all streams.
const anyStream = ^uint64(0)

// unreachable reports whether one of the given streams is not established, and the last attempt
// failed.
func (g *Group) unreachable(streams uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.streams {
		if streams&(1<<i) != 0 && g.streams[i].link.IsDown() {
			return true
		}
	}
	return false
}

// signalDemand signals the feeds of the given streams that there is something to ask, and starts
// missing feeds.
func (g *Group) signalDemand(streams uint64) {
	for i := range g.streams {
		if streams&(1<<i) == 0 {
			continue
		}
		g.mu.Lock()
		news := g.streams[i].listener
		g.mu.Unlock()
		if news == nil {
			g.cache.startWanted(g)
			continue
		}
		signal(news)
	}
	g.signalNeeds()
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// startWanted starts the feeds with demand, unless g is idle.
func (c *Cache) startWanted(g *Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.runs {
		g.startLocked()
	}
}

// stopUnwanted ends the feeds that have no demand any more. The first one stays as long as the
// group has clients.
func (c *Cache) stopUnwanted(g *Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := 1; i < len(g.streams) && g.runs; i++ {
		if g.streams[i].feed != nil && !g.hasDemand(i) {
			g.stopStreamLocked(i, errUnwanted)
		}
	}
	if g.runs {
		g.startLocked() // demand that began meanwhile was not signaled
	}
}

// startLocked starts the feeds that are due: the first one, and those with demand. cache.mu must be
// held.
func (g *Group) startLocked() {
	if !g.runs {
		g.cache.running++
	}
	g.runs = true
	for i := range g.streams {
		if g.streams[i].feed == nil && (i == 0 || g.hasDemand(i)) {
			g.startStreamLocked(i)
		}
	}
}

func (g *Group) startStreamLocked(i int) {
	ctx, end := context.WithCancelCause(g.cache.ctx)
	f := &Feed{group: g, stream: i, news: make(chan struct{}, 1), needs: make(chan struct{}, 1), ctx: ctx, end: end}
	g.streams[i].feed = f
	g.mu.Lock()
	g.streams[i].listener, g.streams[i].needs = f.news, f.needs
	g.streams[i].link.Start(time.Now())
	g.mu.Unlock()
	g.cache.feeds.Go(func() { g.cache.cfg.Run(ctx, f) })
}

// stopLocked ends all feeds. cache.mu must be held.
func (g *Group) stopLocked(cause error) {
	if g.runs {
		g.cache.running--
	}
	g.runs = false
	for i := range g.streams {
		if g.streams[i].feed != nil {
			g.stopStreamLocked(i, cause)
		}
	}
}

// stopStreamLocked ends a feed: the key is idle, or the stream has no demand. cache.mu must be held.
func (g *Group) stopStreamLocked(i int, cause error) {
	g.streams[i].feed.end(cause)
	g.streams[i].feed = nil
	g.mu.Lock()
	if l := &g.streams[i].link; g.runs {
		l.Release(time.Now())
	} else {
		l.Idle(cause, time.Now())
	}
	g.streams[i].listener, g.streams[i].needs, g.streams[i].verdicts = nil, nil, nil
	g.mu.Unlock()
	g.forgetLocalErrors(i)
}
