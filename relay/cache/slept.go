package cache

import (
	"sync/atomic"
	"time"
)

// A process that is stopped for a while, with its machine or by a signal, wakes up with
// content that was current when it went to sleep, and does not know: other nodes have gone
// on meanwhile, and clients come back from them with newer content. So somebody beats for
// the cache (see [Cache.Beat]); where a beat is late, nothing is served from the moment on
// at which the process runs again, and once [Cache.Slept] was called, until the origin has
// answered, other nodes were asked, or the hold time is over (K12).

// aliveness is when the process was last seen to run.
type aliveness struct {
	last atomic.Int64 // in nanoseconds since the cache was made; 0 while nobody beats
	most atomic.Int64 // the longest time between two beats of a process that runs
	// missed says that a client was not served because a beat was late.
	missed atomic.Bool
}

// Beat notes that the process runs, and will say so again within most. Clients that were not
// served because it is late are woken: what they wait for may never change again.
func (c *Cache) Beat(most time.Duration) {
	c.beat.most.Store(int64(most))
	c.beat.last.Store(int64(max(1, time.Since(c.made))))
	if c.beat.missed.Swap(false) {
		c.wakeAll()
	}
}

// asleep reports whether a beat is late. Its caller serves no client then, and is called again
// after the next beat.
func (c *Cache) asleep() bool {
	if !c.beatIsLate() {
		return false
	}
	c.beat.missed.Store(true)
	return c.beatIsLate() // a beat that came meanwhile may have been before missed was set
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
			for _, s := range t.subs {
				woken[s] = struct{}{}
			}
			t.mu.RUnlock()
		}
	}
	c.wake(woken)
}

// Slept notes that the process did not run from a time on until now, so that what all keys
// hold may be old.
func (c *Cache) Slept(began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.groups {
		if g.runs {
			g.sleptLocked(began)
		}
	}
}

// sleptLocked needs cache.mu.
func (g *Group) sleptLocked(began time.Time) {
	hold, now := g.cache.cfg.Hold, time.Now()
	for _, t := range g.Tables() {
		t.mu.Lock()
		for i := range t.legs {
			leg := &t.legs[i]
			if known := t.gen > 0 || leg.answered > 0; !known || leg.wanted == 0 {
				continue
			}
			leg.held, leg.doubted, leg.absent = hold > 0, true, nil
			leg.unsettled, leg.slept = now, began
		}
		t.mu.Unlock()
	}
	g.mu.Lock()
	for i := range g.legs {
		if l := &g.legs[i]; l.listener != nil {
			l.compares = true
			l.lose(began)
		}
	}
	g.mu.Unlock()
	if hold > 0 {
		g.holdFor(hold)
	}
	g.signalNeeds()
}

// holdFor ends the hold of all legs after a time. cache.mu must be held.
func (g *Group) holdFor(hold time.Duration) {
	if g.hold == nil {
		g.hold = time.AfterFunc(hold, g.unholdAll)
	} else {
		g.hold.Reset(hold)
	}
}
