package fanout

import (
	"maps"
	"net"
	"sync"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"xdsrelay/fanout/journal"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/load"
	"xdsrelay/relay/lockorder"
)

// A rollout shows a candidate of a key's content to some clients, its canaries, and observes how they
// take it. A canary is sent the names that the candidate replaces when it enters and when it leaves, and
// nothing else: its positions stay, so all that it has otherwise is not sent again.

// Canary identifies a client that may be a canary. All streams of a client are shown the same.
type Canary struct {
	// ID is the node id, which is a claim. Identity is what the certificate proves; empty for nothing.
	ID, Identity string
}

// Arm is the part of a client in a rollout.
type Arm uint8

// The arms.
const (
	// NoArm: the client has no part in it.
	NoArm Arm = iota
	// CanaryArm: it is shown the candidate.
	CanaryArm
	// ControlArm: canaries are compared with it.
	ControlArm
)

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

// CanaryEvent is something that happened to a client of an arm: of the control group, only the end of a
// stream and load reports.
type CanaryEvent struct {
	Canary

	Arm Arm
	// Source is the host of the client's address; empty if unknown.
	Source   string
	Key      string
	Revision string
	At       time.Time
	// Exposure is what an answer leads to, Accepted or Rejected. Of a stream that has ended it is that of
	// its worst type.
	Exposure Exposure
	// Ended says that the stream has ended, and Lost that the client, or the network, ended it.
	Ended, Lost bool
	// Type is the type URL of the answer, and Reason the redacted message of a rejection. Of a stream that
	// has ended, Type is one with a response that was not answered; empty for none.
	Type, Reason string
	// Load is what a load report says about requests since the client has had its arm; nil for other
	// events.
	Load *Load
}

// Load is how many requests of a client to all clusters have ended, and how many of them have failed.
type Load struct{ Requests, Errors uint64 }

// showing is what the clients of a key are shown.
type showing struct {
	of        *cache.Candidate // as the caller has made it
	candidate *cache.Candidate // as clients are shown it; see [cache.Candidate.After]
	arm       func(Canary) Arm
	notify    func(CanaryEvent)
	since     time.Time // see Watch; zero: the candidate is not promoted
	began     time.Time // since when the clients are shown it

	*members
}

// members are the streams that see a candidate and those of its control group. The steps of a candidate share
// them: a stream may end while the next step is being shown, and has its arm until that step reaches it.
type members struct {
	mu lockorder.Mutex[lockorder.Leaf]
	// streams are those of both arms. Guarded by mu.
	streams map[*stream]Arm
}

// joins records the arm of a stream.
func (s *members) joins(st *stream, arm Arm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if arm == NoArm {
		delete(s.streams, st)
	} else {
		s.streams[st] = arm
	}
}

// leaves forgets a stream, and returns its arm.
func (s *members) leaves(st *stream) Arm {
	s.mu.Lock()
	defer s.mu.Unlock()
	arm := s.streams[st]
	delete(s.streams, st)
	return arm
}

func (s *members) snapshot() map[*stream]Arm {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.streams)
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

func (c *candidates) isEmpty() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.of) == 0
}

func (c *candidates) set(g *cache.Group, to *showing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[*cache.Group]*showing)
	}
	was := c.of[g]
	switch {
	case to == nil:
		delete(c.of, g)
		return
	case was == nil:
		to.candidate = to.of
	case was.of == to.of:
		to.candidate = was.candidate
	default:
		to.candidate = to.of.After(was.candidate)
	}
	if was != nil && was.of.Revision == to.of.Revision && was.since.IsZero() && to.since.IsZero() {
		to.members = was.members
	} else {
		to.members = &members{streams: make(map[*stream]Arm)}
	}
	c.of[g] = to
}

// Show shows a candidate to those clients of a key whose arm is [CanaryArm], now and when they connect, and
// the tables to all others. It replaces what was shown before. arm and notify are called for one stream at
// a time while others wait for that stream, so they must be quick and take no lock of the cache or of this
// package; notify gets all events of both arms. It lasts until [Server.Hide], also where the key has no
// clients any more.
func (s *Server) Show(g *cache.Group, c *cache.Candidate, arm func(Canary) Arm, notify func(CanaryEvent)) {
	s.shows(g, &showing{of: c, arm: arm, notify: notify, began: time.Now()}, true)
}

// Watch shows the tables to all clients of a key, as [Server.Hide] with promoted does, and observes how they
// take what a rollout has promoted at a time in some tables: all clients count as canaries, and all that
// they are sent of these tables from then on counts as the revision.
func (s *Server) Watch(g *cache.Group, revision string, tables []*cache.Table, since time.Time, notify func(CanaryEvent)) {
	all := func(Canary) Arm { return CanaryArm }
	s.shows(g, &showing{of: cache.NewPromoted(revision, tables), arm: all, notify: notify, since: since, began: time.Now()}, false)
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
	show := s.srv.candidates.get(s.group)
	if show != nil {
		arm := show.arm(s.canary())
		show.joins(s, arm)
		if arm == CanaryArm {
			candidate = show.candidate
		}
	}
	was := s.candidate
	if was == candidate {
		return
	}
	s.candidate = candidate
	if was != nil && candidate != nil && was.Revision == candidate.Revision {
		return // it has the same content, and was cut again
	}
	for _, ts := range s.types {
		unsure := ts.Unanswered() || ts.exposure == Rejected
		ts.exposure = NotExposed
		if ts.Sent == cache.Start || ts.isUncompared() {
			continue // it is sent everything that it lacks anyway
		}
		if differs {
			ts.Force = ts.Force.With(ts.table.Differ(&ts.watcher, was.View(ts.table), candidate.View(ts.table), unsure))
		}
	}
	if show != nil && !show.since.IsZero() {
		s.tookLocked(show)
	}
}

// tookLocked finds out how the client has taken what was promoted just now.
func (s *stream) tookLocked(show *showing) {
	for _, ts := range s.types {
		if !show.candidate.IsPromoted(ts.table) || ts.Sent == cache.Start {
			continue
		}
		switch sent := s.srv.timeOf(ts.sentAt); {
		case ts.nack != nil && !ts.nack.At.Before(show.since):
			ts.exposure = Exposed
			s.answeredLocked(ts, Rejected, ts.nack.At)
		case sent.Before(show.since):
		case ts.Unanswered():
			ts.exposure = Exposed
		default:
			ts.exposure = Accepted
		}
	}
}

func (s *stream) canary() Canary { return Canary{ID: s.nodeID, Identity: s.identity()} }

// reported counts the requests of a load report for the arm of the client. Clusters whose report begins before
// the clients were shown the candidate count for nothing.
func (s *loadStream) reported(stats []*endpointv3.ClusterStats, now time.Time) {
	if s.tier != nil || s.srv.candidates.isEmpty() {
		return // other nodes decide for their clients
	}
	g := s.srv.cfg.Cache.GroupOf(s.key)
	if g == nil {
		return
	}
	show := s.srv.candidates.get(g)
	if show == nil {
		return
	}
	by := s.call.Identity()
	e := CanaryEvent{Canary: Canary{ID: s.nodeID, Identity: by.Identity()}, Load: &Load{}, Key: string(s.key), Revision: show.candidate.Revision, At: now}
	if e.Arm = show.arm(e.Canary); e.Arm == NoArm {
		return
	}
	for _, c := range stats {
		if now.Add(-c.GetLoadReportInterval().AsDuration()).Before(show.began) {
			continue
		}
		for _, l := range c.GetUpstreamLocalityStats() {
			e.Load.Errors = load.Add(e.Load.Errors, l.GetTotalErrorRequests())
			e.Load.Requests = load.Add(e.Load.Requests, load.Add(l.GetTotalSuccessfulRequests(), l.GetTotalErrorRequests()))
		}
	}
	if e.Load.Requests > 0 {
		e.Source, _, _ = net.SplitHostPort(s.peer)
		show.notify(e)
	}
}

// seesLocked returns the view in which the client sees a type; nil for the table.
func (s *stream) seesLocked(ts *typeState) *cache.View { return s.candidate.View(ts.table) }

// answeredLocked records that a client has answered all that it was sent of a type.
func (s *stream) answeredLocked(ts *typeState, as Exposure, now time.Time) {
	if ts.exposure != Exposed {
		return
	}
	ts.exposure = as
	e := CanaryEvent{Arm: CanaryArm, At: now, Exposure: as, Type: ts.table.Type.URL}
	if as == Rejected {
		e.Reason = ts.nack.Message
	}
	if show := s.srv.candidates.get(s.group); show != nil && show.candidate == s.candidate {
		s.notifyLocked(show, e)
	}
}

// lostLocked records that the stream of a client of an arm ends.
func (s *stream) lostLocked(why journal.End, now time.Time) {
	if s.tier != nil || s.group == nil {
		return
	}
	if show := s.srv.candidates.get(s.group); show != nil {
		if arm := show.leaves(s); arm != NoArm {
			e := CanaryEvent{Arm: arm, At: now, Exposure: s.exposureLocked(), Ended: true, Lost: why == journal.Closed}
			_, e.Type = s.unansweredLocked()
			s.notifyLocked(show, e)
		}
	}
	s.candidate = nil
}

func (s *stream) notifyLocked(show *showing, e CanaryEvent) {
	e.Canary, e.Key, e.Revision = s.canary(), string(s.group.Key), show.candidate.Revision
	e.Source, _, _ = net.SplitHostPort(s.peer)
	show.notify(e)
}

func (s *stream) exposureLocked() (worst Exposure) {
	for _, ts := range s.types {
		worst = max(worst, ts.exposure)
	}
	return worst
}

// holdsLocked reports whether the client holds the candidate without having been sent anything of it: it
// returned with it, or another node had sent it.
func (s *stream) holdsLocked() (holds bool) {
	for _, ts := range s.types {
		if s.candidate.View(ts.table) == nil {
			continue
		}
		if ts.standing(ts.seen) != standsSynced {
			return false
		}
		holds = true
	}
	return holds
}

// unansweredLocked returns when the oldest unanswered response with something of the candidate was sent, and
// its type URL; zero for none.
func (s *stream) unansweredLocked() (since time.Time, typeURL string) {
	for _, ts := range s.types {
		if at := s.srv.timeOf(ts.sentAt); ts.exposure == Exposed && (since.IsZero() || at.Before(since)) {
			since, typeURL = at, ts.table.Type.URL
		}
	}
	return since, typeURL
}
