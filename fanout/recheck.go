package fanout

import (
	"context"
	"math/rand/v2"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout/authz"
	"xdsrelay/relay/authorize"
)

// Who was let in may have to go: its certificate expires, an authority is withdrawn,
// the rules change. One goroutine looks at all streams, each when its turn comes, so
// a stream has no timer, and the looks are spread by the times at which clients came.

// errRulesChanged ends a stream of whose Node not enough is known any more.
var errRulesChanged = status.Error(codes.Unavailable, "the rules of authorize have changed, and ask for what this stream's first request said: connect again")

// Times of rechecks.
const (
	maxRecheckPause = 5 * time.Second
	minRecheckPause = 50 * time.Millisecond
)

// recheckPause is between two looks at which streams are due.
func (s *Server) recheckPause() time.Duration {
	if s.cfg.RecheckInterval <= 0 {
		return maxRecheckPause
	}
	return min(max(s.cfg.RecheckInterval/64, minRecheckPause), maxRecheckPause)
}

// RunRechecks looks at the clients' streams now and then, whether they may stay, and
// ends those that may not, until ctx ends. It is called once.
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

// Recheck has all streams looked at soon: what was trusted or allowed has changed.
func (s *Server) Recheck() {
	s.rechecks.Add(1)
	select {
	case s.recheck <- struct{}{}:
	default: // they are about to be
	}
}

// checked is a stream that can be looked at.
type checked interface {
	// recheck ends the stream if its client may not stay.
	recheck()
}

// dueNow returns the streams whose turn it is, or all that were let in.
func (s *Server) dueNow(now time.Time, all bool) (out []checked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.stamp(now)
	for st := range s.streams {
		if st.turnLocked(at, all) {
			out = append(out, st)
		}
	}
	for st := range s.loads {
		if st.turnLocked(at, all) {
			out = append(out, st)
		}
	}
	return out
}

// turnLocked reports whether the caller is to be looked at. The Server's mu must be
// held.
func (c *caller) turnLocked(now stamp, all bool) bool {
	if c.due == 0 || c.due > now && !all {
		return false
	}
	c.due = notDue
	return true
}

// askAgain notes when a client that was let in is looked at next. before is how often
// Recheck had been called before it was let in.
func (s *Server) askAgain(c *caller, p *authorize.Policy, by authz.Client, before uint64, now time.Time) {
	var at time.Time
	if expires := by.Expires(); !expires.IsZero() && !s.cfg.Gate.KeepsUntrusted() {
		at = expires.Add(time.Second) // its last second is over then
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
		due = s.stamp(now) // who let it in may not have seen the change, and who looked did not see it
	}
	c.due = due
}

// recheck implements checked.
func (s *stream) recheck() {
	p, _ := peer.FromContext(s.grpc.Context())
	s.srv.recheckCaller(&s.caller, p, s.node, uint64(s.fields))
}

// recheck implements checked.
func (s *loadStream) recheck() {
	p, _ := peer.FromContext(s.grpc.Context())
	s.srv.recheckCaller(&s.caller, p, "", 0)
}

// recheckCaller asks again whether a client may be what it said, of which node has a
// set of fields.
func (s *Server) recheckCaller(c *caller, p *peer.Peer, node string, set uint64) {
	before := s.rechecks.Load()
	by, policy := authz.ClientOf(p), s.cfg.Gate.Policy()
	var claim corev3.Node
	if !policy.Open() {
		if !policy.Reads().Within(c.by.reads(), set) {
			c.end(errRulesChanged)
			return
		}
		kept := node
		if c.by != nil {
			kept += c.by.claim
		}
		if proto.Unmarshal([]byte(kept), &claim) != nil {
			c.end(errRulesChanged) // cannot be: both could be read before
			return
		}
	}
	if err := s.cfg.Gate.Recheck(policy, &claim, by); err != nil {
		c.end(err)
		return
	}
	s.askAgain(c, policy, by, before, time.Now())
}
