package upstream

import (
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"
)

// pauses are the keys that wait before their next attempt to open a stream to one server.
type pauses struct {
	mu    sync.Mutex
	until map[*pace]time.Time // guarded by mu
}

// set records until when a key waits; zero if it does not.
func (p *pauses) set(waiter *pace, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.IsZero() {
		delete(p.until, waiter)
		return
	}
	if p.until == nil {
		p.until = make(map[*pace]time.Time)
	}
	p.until[waiter] = until
}

// next returns when the first pause ends; zero if there is none.
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

// nextAttempt says when the next attempt to reach the server is, as the end of a message that it is
// down; "" while a key makes an attempt. gRPC does not expose when it will connect again, so the
// text has the longest pause between two attempts.
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

// longest returns the longest pause including jitter.
func (b Backoff) longest() time.Duration {
	return b.Max + time.Duration(b.Jitter*float64(b.Max))
}

// Reconnect makes all keys that wait before their next attempt try again now, spread like after an
// outage. It also makes gRPC retry failed connections now. Open streams are not affected.
func (c *ControlPlane) Reconnect() {
	for _, s := range c.servers {
		s.channel.ResetConnectBackoff()
		s.journal.wakeWaiting()
	}
}

// wakeWaiting ends the pauses of all keys that wait for [journal.back].
func (j *journal) wakeWaiting() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wakeWaitingLocked()
}

func (j *journal) wakeWaitingLocked() {
	if j.backUp != nil {
		close(j.backUp)
		j.backUp = nil
	}
}
