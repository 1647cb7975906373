package upstream

import (
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"
)

// pauses are the keys that wait before their next attempt at a stream to one server.
type pauses struct {
	mu    sync.Mutex
	until map[*pace]time.Time // guarded by mu
}

// set notes until when a key waits; the zero time for not at all.
func (p *pauses) set(who *pace, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.IsZero() {
		delete(p.until, who)
		return
	}
	if p.until == nil {
		p.until = make(map[*pace]time.Time)
	}
	p.until[who] = until
}

// next is when the first of the pauses ends; zero if there is none.
func (p *pauses) next() (first time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.until {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// nextAttempt says when the server is tried next, as the end of a sentence that says that
// it is down; "" where an attempt of a key goes on. gRPC does not say when it tries to
// connect again, so that is named by the longest pause between two attempts.
func (s *server) nextAttempt() string {
	switch s.channel.GetState() {
	case connectivity.TransientFailure:
		return "; next attempt to connect within " + s.owner.cfg.Backoff.longest().String()
	case connectivity.Connecting:
		return "; connecting now"
	}
	at := s.pauses.next()
	if at.IsZero() {
		return ""
	}
	return "; next attempt at " + at.Add(time.Second-1).UTC().Format(time.RFC3339) // rounded up
}

// longest is the longest pause with its jitter.
func (b Backoff) longest() time.Duration {
	return b.Max + time.Duration(b.Jitter*float64(b.Max))
}

// Reconnect makes all keys that wait before their next attempt try again now, spread as
// after an outage, and connections that cannot be made be tried now, too. Streams that
// work are not affected.
func (c *ControlPlane) Reconnect() {
	for _, s := range c.servers {
		s.channel.ResetConnectBackoff()
		s.journal.hurry()
	}
}

// hurry ends the pauses of all who wait for [journal.back].
func (j *journal) hurry() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hurryLocked()
}

func (j *journal) hurryLocked() {
	if j.returned != nil {
		close(j.returned)
		j.returned = nil
	}
}
