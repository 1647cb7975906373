package fanout

import (
	"sync"
	"time"

	"xdsrelay/fanout/journal"
	"xdsrelay/relay/cache"
)

// A rollout shows a candidate of a key's content to some clients, its canaries, and observes how they
// take it. A canary is sent the names that the candidate replaces when it enters and when it leaves, and
// nothing else: its positions stay, so all that it has otherwise is not sent again.

// Canary identifies a client that may be a canary. All streams of a client are shown the same.
type Canary struct {
	// ID is the node id, which is a claim. Identity is what the certificate proves; empty for nothing.
	ID, Identity string
}

// Exposure is what a client was sent of a candidate.
type Exposure uint8

// The exposures of a type, and of a client: that of its worst type.
const (
	// NotExposed: nothing of it.
	NotExposed Exposure = iota
	// Accepted: it has acknowledged all that it was sent of it.
	Accepted
	// Exposed: it was sent something, and has not answered.
	Exposed
	// Rejected: it has rejected a response with something of it.
	Rejected
)

// CanaryEvent is something that happened to a canary.
type CanaryEvent struct {
	Canary

	Key      string
	Revision string
	At       time.Time
	// Exposure is what an answer leads to, Accepted or Rejected. Of a stream that has ended it is that of
	// its worst type.
	Exposure Exposure
	// Ended says that the stream has ended, and Lost that the client, or the network, ended it.
	Ended, Lost bool
	// Type is the type URL of the answer, and Reason the redacted message of a rejection.
	Type, Reason string
}

// CanaryStatus is how a canary stands with a candidate.
type CanaryStatus struct {
	Canary

	Exposure Exposure
	// Since is when the oldest unanswered response with something of the candidate was sent; zero if
	// there is none.
	Since time.Time
}

// showing is what the clients of a key are shown.
type showing struct {
	candidate *cache.Candidate
	canary    func(Canary) bool
	notify    func(CanaryEvent)
}

// candidates are the candidates that are shown.
type candidates struct {
	mu sync.RWMutex
	of map[*cache.Group]*showing // guarded by mu
}

func (c *candidates) get(g *cache.Group) *showing {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.of[g]
}

func (c *candidates) set(g *cache.Group, to *showing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[*cache.Group]*showing)
	}
	if c.of[g] = to; to == nil {
		delete(c.of, g)
	}
}

// Show shows a candidate to the clients of a key that canary accepts, now and when they connect, and the
// tables to all others. It replaces what was shown before. canary and notify are called for one stream at
// a time while others wait for that stream, so they must be quick and take no lock of the cache or of this
// package; notify gets all events of the canaries. It lasts until [Server.Hide], also where the key has no
// clients any more.
func (s *Server) Show(g *cache.Group, c *cache.Candidate, canary func(Canary) bool, notify func(CanaryEvent)) {
	s.shows(g, &showing{c, canary, notify}, true)
}

// Hide shows the tables to all clients of a key. promoted says that the tables have the content of the
// candidate by now, so that a canary that has it is not sent it again.
func (s *Server) Hide(g *cache.Group, promoted bool) { s.shows(g, nil, !promoted) }

// shows records what is shown, and moves the streams. differs says that the streams that stop seeing a
// candidate need what the tables have instead.
func (s *Server) shows(g *cache.Group, to *showing, differs bool) {
	s.candidates.set(g, to)
	for _, st := range s.snapshot() {
		st.mu.Lock()
		if st.group == g && !st.ended {
			if !differs {
				st.flushLocked() // in the view it passes over the promotion
			}
			st.seeLocked(differs)
			st.flushLocked()
		}
		st.unlock()
	}
}

// seeLocked makes the stream see what it should. differs says that what it saw differs from the tables.
func (s *stream) seeLocked(differs bool) {
	if s.tier != nil {
		return // other nodes decide for their clients
	}
	var candidate *cache.Candidate
	if show := s.srv.candidates.get(s.group); show != nil && show.canary(s.canary()) {
		candidate = show.candidate
	}
	was := s.candidate
	if was == candidate {
		return
	}
	s.candidate = candidate
	for _, ts := range s.types {
		ts.exposure = NotExposed
		if ts.Sent == cache.Start || ts.isUncompared() {
			continue // it is sent everything that it lacks anyway
		}
		if differs {
			ts.Force = ts.Force.With(ts.table.Differ(&ts.watcher, was.View(ts.table), candidate.View(ts.table), ts.Unanswered()))
		}
	}
}

func (s *stream) canary() Canary { return Canary{ID: s.nodeID, Identity: s.identity()} }

// seesLocked returns the view in which the client sees a type; nil for the table.
func (s *stream) seesLocked(ts *typeState) *cache.View { return s.candidate.View(ts.table) }

// answeredLocked records that a client has answered all that it was sent of a type.
func (s *stream) answeredLocked(ts *typeState, as Exposure, now time.Time) {
	if ts.exposure != Exposed {
		return
	}
	ts.exposure = as
	e := CanaryEvent{At: now, Exposure: as, Type: ts.table.Type.URL}
	if as == Rejected {
		e.Reason = ts.nack.Message
	}
	s.notifyLocked(e)
}

// lostLocked records that a canary's stream ends.
func (s *stream) lostLocked(why journal.End, now time.Time) {
	if s.candidate == nil {
		return
	}
	s.notifyLocked(CanaryEvent{At: now, Exposure: s.exposureLocked(), Ended: true, Lost: why == journal.Closed})
	s.candidate = nil
}

func (s *stream) notifyLocked(e CanaryEvent) {
	show := s.srv.candidates.get(s.group)
	if s.candidate == nil || show == nil || show.candidate != s.candidate {
		return
	}
	e.Canary, e.Key, e.Revision = s.canary(), string(s.group.Key), s.candidate.Revision
	show.notify(e)
}

func (s *stream) exposureLocked() (worst Exposure) {
	for _, ts := range s.types {
		worst = max(worst, ts.exposure)
	}
	return worst
}

// Canaries returns how the clients that see the candidate of a key stand with it, one for each stream.
func (s *Server) Canaries(g *cache.Group) (all []CanaryStatus) {
	for _, st := range s.snapshot() {
		st.mu.Lock()
		if st.group == g && st.candidate != nil {
			c := CanaryStatus{Canary: st.canary(), Exposure: st.exposureLocked()}
			for _, ts := range st.types {
				if at := s.timeOf(ts.sentAt); ts.exposure == Exposed && (c.Since.IsZero() || at.Before(c.Since)) {
					c.Since = at
				}
			}
			all = append(all, c)
		}
		st.mu.Unlock()
	}
	return all
}

// Affected returns the clients of a key whose subscriptions see something that differs in a candidate,
// one for each stream.
func (s *Server) Affected(g *cache.Group, c *cache.Candidate) (all []Client) {
	for _, st := range s.snapshot() {
		st.mu.Lock()
		affected := false
		for _, ts := range st.types {
			affected = affected || st.group == g && ts.table.Differ(&ts.watcher, nil, c.View(ts.table), false) != nil
		}
		st.mu.Unlock()
		if affected {
			all = append(all, client{st})
		}
	}
	return all
}
