package cache

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"xdsrelay/relay/cache/confidence"
)

// A process that is stopped for a while, with its machine or by a signal, resumes with content that
// was current when it was stopped, and cannot know it: other nodes have received updates meanwhile,
// and clients reconnect from them with newer content. So the process proves that it runs (see
// [Cache.Beat]). When a beat is late, nothing is served from the moment at which the process runs
// again until [Cache.Slept] was called and, after that, until the control plane has answered, other
// nodes were asked, or the hold time has passed (K12).

// aliveness is when the process was last known to run.
type aliveness struct {
	last atomic.Int64 // in nanoseconds since the cache was made; 0 before the first beat
	most atomic.Int64 // the longest time between two beats of a running process
	// missed says that a client was not served because a beat was late.
	missed atomic.Bool
}

// Beat records that the process runs, and will call Beat again within most. It wakes clients that
// were not served because it is late: what they wait for may never change again.
func (c *Cache) Beat(most time.Duration) {
	c.beat.most.Store(int64(most))
	c.beat.last.Store(int64(max(1, time.Since(c.made))))
	if c.beat.missed.Swap(false) {
		c.wakeAll()
	}
}

// Doubt takes the last beat back, as if the next one were late: no client is served until it is
// there.
func (c *Cache) Doubt() { c.beat.most.Store(math.MinInt64) }

// asleep reports whether a beat is late. The caller then serves no client, and is called again
// after the next beat.
func (c *Cache) asleep() bool {
	if !c.beatIsLate() {
		return false
	}
	c.beat.missed.Store(true)
	return c.beatIsLate() // a concurrent beat may have been before missed was set
}

func (c *Cache) beatIsLate() bool {
	last := c.beat.last.Load()
	return last > 0 && int64(time.Since(c.made))-last > c.beat.most.Load()
}

// wakeAll wakes all clients of all groups.
func (c *Cache) wakeAll() {
	woken := make(map[*Subscription]struct{})
	for _, g := range append(c.Groups(), c.privateGroups()...) {
		for _, t := range g.Tables() {
			t.mu.RLock()
			for _, s := range t.core.subs {
				woken[s] = struct{}{}
			}
			t.mu.RUnlock()
		}
	}
	c.wake(woken)
}

// stayedUp is how long after the process woke up a stream that has not ended since counts as alive:
// a control plane that was still connected has sent what is newer by then, and keepalive pings have
// ended a stream to one that was not.
const stayedUp = time.Minute

// Slept records that the process did not run from a time on until now, so that the content of all
// keys may be old. Streams to the control plane begin again: messages on the way are from before the
// process ran again, and clients may have newer content from other nodes.
func (c *Cache) Slept(began time.Time) {
	for g, streams := range c.startSlept(began) {
		g.signalDemand(streams)
	}
}

// startSlept is Slept without the signal to the feeds of the streams that begin again, which it
// returns.
func (c *Cache) startSlept(began time.Time) map[*Group]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if c.confirm != nil {
		c.confirm.Stop() // it would confirm too early what slept again
	}
	now := time.Now()
	c.confirm = time.AfterFunc(stayedUp, func() { c.confirmAwake(now) })
	again := make(map[*Group]uint64)
	for _, g := range c.groups {
		if g.runs {
			again[g] = g.sleptLocked(began)
		}
	}
	return again
}

// sleptLocked returns the set of streams that have to begin again. It must be called with cache.mu
// held.
func (g *Group) sleptLocked(began time.Time) (again uint64) {
	hold, now := g.cache.cfg.Hold, time.Now()
	for _, t := range g.Tables() {
		t.mu.Lock()
		for i := range t.core.streams {
			stream := &t.core.streams[i]
			if known := t.core.store.Gen() > 0 || t.core.demand.Stream(i).HasAnswered(); !known || t.core.demand.Stream(i).Wanted() == 0 {
				continue
			}
			t.core.effect(i, stream.confidence.Woke(began, now), nil)
			if g.asksOrigin(i) {
				stream.claims++
				again |= 1 << i
			}
			if hold > 0 {
				stream.confidence.HoldBegan()
			}
		}
		t.mu.Unlock()
	}
	g.mu.Lock()
	for i := range g.streams {
		g.streams[i].link.Sleep(began, now)
	}
	g.mu.Unlock()
	if hold > 0 {
		g.holdFor(hold)
	}
	return again
}

// unheardSinceSleep reports whether a stream to the control plane has been established since before
// the process slept, and has not answered since for some type: its connection may have stalled. If
// it stays silent for [confidence.Silence], the control plane counts as having nothing new.
func (g *Group) unheardSinceSleep(stream int) bool {
	if !g.asksOrigin(stream) {
		return false
	}
	now := time.Now()
	return slices.ContainsFunc(g.Tables(), func(t *Table) bool {
		t.mu.RLock()
		defer t.mu.RUnlock()
		c := &t.core.streams[stream].confidence
		return c.Basis == confidence.Slept && c.Is(confidence.Older, now)
	})
}

// confirmAwake confirms the content of streams that have been established since before the process
// woke up. A control plane without changes sends nothing, so clients would wait for its answer
// indefinitely that return with resources that are gone.
func (c *Cache) confirmAwake(woke time.Time) {
	woken := make(map[*Subscription]struct{})
	for _, g := range append(c.Groups(), c.privateGroups()...) {
		for _, t := range g.Tables() {
			t.mu.Lock()
			for i := range t.core.streams {
				if g.upSince(i, woke) {
					asOf := t.core.streamAsOf(i, time.Now())
					t.core.effect(i, t.core.streams[i].confidence.StayedUp(asOf), woken)
				}
			}
			t.mu.Unlock()
		}
	}
	c.wake(woken)
}

// upSince reports whether a stream has been established since before a time.
func (g *Group) upSince(stream int, at time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.streams[stream].link.ConfirmsSince(at)
}

// holdFor ends the withholding of old content on all streams after a time. cache.mu must be held.
func (g *Group) holdFor(hold time.Duration) {
	if g.hold == nil {
		g.hold = time.AfterFunc(hold, g.unholdAll)
	} else {
		g.hold.Reset(hold)
	}
}
