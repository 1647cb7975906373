package fanout

import (
	"context"
	"math/rand/v2"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout/authz"
	"xdsrelay/relay/authorize"
)

// An admitted client may have to leave: its certificate expires, a CA is withdrawn, or the rules
// change. One goroutine checks all streams, each when it is due. So a stream needs no timer, and
// the checks are spread like the times at which clients connected.

// errRulesChanged ends a stream if too little of its Node is kept for the new rules.
var errRulesChanged = status.Error(codes.Unavailable, "the authorization rules changed, and read fields of this stream's first request that the node did not keep: reconnect")

// Bounds of recheckPause.
const (
	maxRecheckPause = 5 * time.Second
	minRecheckPause = 50 * time.Millisecond
)

// recheckPause returns the time between two checks for due streams.
func (s *Server) recheckPause() time.Duration {
	if s.cfg.RecheckInterval <= 0 {
		return maxRecheckPause
	}
	return min(max(s.cfg.RecheckInterval/64, minRecheckPause), maxRecheckPause)
}

// RunRechecks checks client streams when they are due, and ends those whose clients are no longer
// allowed, until ctx ends. It is called once.
func (s *Server) RunRechecks(ctx context.Context) {
	timer := time.NewTimer(s.recheckPause())
	defer timer.Stop()
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-s.recheck:
			all = true
		case <-timer.C:
		}
		for _, st := range s.dueNow(time.Now(), all) {
			st.recheck()
		}
		timer.Reset(s.recheckPause())
	}
}

// Recheck makes all streams due: trust or rules have changed.
func (s *Server) Recheck() {
	s.rechecks.Add(1)
	select {
	case s.recheck <- struct{}{}:
	default: // a recheck is pending
	}
}

// recheckable is a stream that can be checked.
type recheckable interface {
	// recheck ends the stream if its client is no longer allowed.
	recheck()
}

// dueNow returns the streams that are due, or all that were admitted.
func (s *Server) dueNow(now time.Time, all bool) (out []recheckable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.stamp(now)
	for st := range s.streams {
		if st.takeDueLocked(at, all) {
			out = append(out, st)
		}
	}
	for st := range s.loads {
		if st.takeDueLocked(at, all) {
			out = append(out, st)
		}
	}
	return out
}

// takeDueLocked reports whether the caller is due, and clears that. The caller holds the Server's
// mu.
func (c *caller) takeDueLocked(now stamp, all bool) bool {
	if c.due == 0 || c.due > now && !all {
		return false
	}
	c.due = notDue
	return true
}

// scheduleRecheck sets when an admitted client is checked next. before is the number of calls of
// Recheck before it was admitted.
func (s *Server) scheduleRecheck(c *caller, p *authorize.Policy, by authz.Client, before uint64, now time.Time) {
	var at time.Time
	if expires := by.Expires(); !expires.IsZero() && !s.cfg.Gate.KeepsUntrusted() {
		at = expires.Add(time.Second) // after its last valid second
	}
	if i := s.cfg.RecheckInterval; i > 0 && (by.Authenticated || !p.Open()) {
		if next := now.Add(i*3/4 + rand.N(i/2)); at.IsZero() || next.Before(at) {
			at = next
		}
	}
	due := notDue
	if !at.IsZero() {
		due = s.stamp(at)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rechecks.Load() != before {
		due = s.stamp(now) // its admission may have missed the change, and the recheck may have missed it
	}
	c.due = due
}

// recheck implements checked.
func (s *stream) recheck() {
	if s.srv.recheckCaller(&s.caller, s.node, uint64(s.fields)) && s.groupNow() != nil {
		s.compareRules()
	}
}

// recheck implements checked.
func (s *loadStream) recheck() {
	s.srv.recheckCaller(&s.caller, "", 0)
}

// recheckCaller checks again whether a client may use node, which has the fields in set. Otherwise
// it ends the stream.
func (s *Server) recheckCaller(c *caller, node string, set uint64) (allowed bool) {
	before := s.rechecks.Load()
	by, policy := c.call.Identity(), s.cfg.Gate.Policy()
	var claim corev3.Node
	if !policy.Open() {
		if !policy.Reads().Within(c.by.reads(), set) {
			c.call.End(errRulesChanged)
			return false
		}
		kept := node
		if c.by != nil {
			kept += c.by.claim
		}
		if proto.Unmarshal([]byte(kept), &claim) != nil {
			c.call.End(errRulesChanged) // cannot happen: both were decoded before
			return false
		}
	}
	if err := s.cfg.Gate.Recheck(policy, &claim, by); err != nil {
		c.call.End(err)
		return false
	}
	s.scheduleRecheck(c, policy, by, before, time.Now())
	return true
}
