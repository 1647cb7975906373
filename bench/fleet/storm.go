package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Storm is a reconnection of clients.
type Storm struct {
	// Links is how many connections are cut, chosen at random; 0 means all. The
	// clients of the others stay.
	Links int `json:"links,omitempty"`
	// Versions is "warm" for clients that come back with what they hold, and
	// "cold" for clients that have forgotten it.
	Versions string `json:"versions"`
	// Over is the time over which connections are cut; 0 means at once. In JSON
	// in nanoseconds, like all durations here.
	Over time.Duration `json:"over,omitempty"`
	// Away is how long each client waits until it connects again; 0 means that it
	// does so at once.
	Away time.Duration `json:"away,omitempty"`
	// Quiet is how long no response may have come for the storm to be over; 0
	// means 500 ms.
	Quiet time.Duration `json:"quiet,omitempty"`
}

// Stormed is what a storm led to.
type Stormed struct {
	Reached
	// Since the storm began; Elapsed is up to the last response, without the time
	// that clients were away.
	Responses int64 `json:"responses"`
	Bytes     int64 `json:"bytes"`
	Resources int64 `json:"resources"`
	// Resent is how many of the resources the clients held already.
	Resent int64 `json:"resent"`
}

// Storm cuts connections and waits until all clients hold everything again
// and no more responses come, or until ctx ends, which is no error.
func (f *Fleet) Storm(ctx context.Context, s Storm) (Stormed, error) {
	how := kickWarm
	switch s.Versions {
	case "warm":
	case "cold":
		how = kickCold
	default:
		return Stormed{}, fmt.Errorf("storm: versions %q, expected warm or cold", s.Versions)
	}
	orElse(&s.Quiet, 500*time.Millisecond)
	if s.Over < 0 || s.Away < 0 || s.Quiet < 0 || s.Links < 0 {
		return Stormed{}, fmt.Errorf("storm: %d connections over %v, away for %v, with %v of quiet, expected nothing negative", s.Links, s.Over, s.Away, s.Quiet)
	}
	f.mu.Lock()
	links := append([]*link(nil), f.links[:f.started]...)
	f.mu.Unlock()
	rand.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
	if s.Links > 0 {
		links = links[:min(s.Links, len(links))]
	}
	before, begun := f.total(), time.Now()
	conns := make(map[*link]any, len(links)) // the connections that are to go
	for i, l := range links {
		if wait := time.Until(begun.Add(s.Over * time.Duration(i) / time.Duration(len(links)))); wait > time.Millisecond {
			if !l.pause(ctx, wait) {
				break
			}
		}
		conns[l] = l.conn.Load()
		l.away.Store(int64(s.Away))
		l.kick(how)
	}
	r := f.reach(ctx, f.running(), func(c *client) bool {
		conn := c.link.conn.Load()
		old, cut := conns[c.link]
		return conn != nil && (!cut || any(conn) != old) && c.open.Load() && c.synced.Load()
	})
	for r.Done {
		latest := max(f.total().latest, begun.Add(s.Away).UnixNano())
		if wait := s.Quiet - time.Since(time.Unix(0, latest)); wait > 0 && links[0].pause(ctx, wait) {
			continue
		}
		r.Elapsed = max(r.Elapsed, time.Duration(latest-begun.UnixNano())) - s.Away
		break
	}
	now := f.total()
	return Stormed{
		Reached: r, Responses: now.responses - before.responses, Bytes: now.bytes - before.bytes,
		Resources: now.resources - before.resources, Resent: now.resent - before.resent,
	}, nil
}
