package fanout

import (
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
)

// CanaryStatus is how a client of an arm stands with a candidate.
type CanaryStatus struct {
	Canary

	Arm      Arm
	Exposure Exposure
	// Since is when the oldest unanswered response with something of the candidate was sent; zero if
	// there is none. Type is the type URL of that response.
	Since time.Time
	Type  string
}

// Canaries returns how the clients of both arms stand with the candidate of a key, one for each stream.
func (s *Server) Canaries(g *cache.Group) (all []CanaryStatus) {
	show := s.candidates.get(g)
	if show == nil {
		return nil
	}
	for st, arm := range show.snapshot() {
		st.mu.Lock()
		if st.group == g && !st.ended {
			c := CanaryStatus{Canary: st.canary(), Arm: arm, Exposure: st.exposureLocked()}
			if c.Exposure == NotExposed && st.holdsLocked() {
				c.Exposure = Accepted
			}
			c.Since, c.Type = st.unansweredLocked()
			all = append(all, c)
		}
		st.mu.Unlock()
	}
	return all
}

// arms are the names of arms.
var arms = [...]string{CanaryArm: "canary", ControlArm: "control"}

// rolloutLocked returns the part of the client in a rollout whose revision is not promoted; nil for none.
func (s *stream) rolloutLocked() *ClientRollout {
	show := s.srv.candidates.get(s.group)
	if s.tier != nil || show == nil || !show.since.IsZero() {
		return nil
	}
	arm := show.arm(s.canary())
	if arm == NoArm {
		return nil
	}
	return &ClientRollout{Revision: show.candidate.Revision, Arm: arms[arm]}
}

// Affected is a client that would see a candidate.
type Affected struct {
	Canary

	Client Client
	// By is how the client was authenticated.
	By aggregation.Peer
	// Types are the URLs of the types in which it would see something.
	Types []string
}

// Affected returns the clients of a key whose subscriptions see something that differs in a candidate,
// one for each stream.
func (s *Server) Affected(g *cache.Group, c *cache.Candidate) (all []Affected) {
	for _, st := range s.snapshot() {
		st.mu.Lock()
		var types []string
		for _, ts := range st.types {
			if st.group == g && ts.table.Differ(&ts.watcher, nil, c.View(ts.table), false) != nil {
				types = append(types, ts.table.Type.URL)
			}
		}
		if types != nil {
			all = append(all, Affected{st.canary(), client{st}, st.call.Identity().Peer, types})
		}
		st.mu.Unlock()
	}
	return all
}
