package rollouts

import (
	"slices"
	"sync"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/load"
	"xdsrelay/relay/rollout"
)

// maxSightings bounds the rejections, and the losses, that are remembered of an observed key.
const maxSightings = 1 << 15

const (
	// comparedFor is for how long the losses before a revision are remembered, and comparedAtLeast for how
	// long they are compared with those after it.
	comparedFor     = time.Hour
	comparedAtLeast = 10 * time.Minute
	// leastKnown is for how long a key must have been observed before a revision: otherwise there is nothing
	// to compare with.
	leastKnown = time.Minute
)

// sightings are what the clients of an observed key have done. All of them have each revision, so the time
// before it takes the place of a control group.
type sightings struct {
	hash    func(fanout.Canary) rollout.Hash
	touched func()

	mu sync.Mutex
	// Guarded by mu.
	began    time.Time // the first event that may be known
	since    time.Time // of the revision that is observed
	accepted map[rollout.Hash]bool
	rejected []sighting
	lost     []sighting
	load     map[rollout.Hash]*fanout.Load // since then
	earlier  fanout.Load                   // before
	arms     *arms                         // of the revision; nil: none
}

// sighting is an event of a client.
type sighting struct {
	hash rollout.Hash
	fanout.CanaryEvent
}

func newSightings(hash func(fanout.Canary) rollout.Hash, now time.Time, touched func()) *sightings {
	return &sightings{hash: hash, touched: touched, began: now, since: now, accepted: make(map[rollout.Hash]bool), load: make(map[rollout.Hash]*fanout.Load)}
}

// begin begins a revision that was sent first at a time.
func (s *sightings) begin(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.arms = since, nil
	s.accepted = make(map[rollout.Hash]bool)
	old := func(e sighting) bool { return e.At.Before(since) }
	s.rejected = slices.DeleteFunc(s.rejected, old)
	s.lost = slices.DeleteFunc(s.lost, func(e sighting) bool { return e.At.Before(since.Add(-comparedFor)) })
	for _, l := range s.load {
		s.earlier.Requests, s.earlier.Errors = load.Add(s.earlier.Requests, l.Requests), load.Add(s.earlier.Errors, l.Errors)
	}
	s.load = make(map[rollout.Hash]*fanout.Load)
}

// notify records what a client has done; see [fanout.Server.Observe].
func (s *sightings) notify(e fanout.CanaryEvent) {
	one := sighting{s.hash(e.Canary), e}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.Load != nil:
		l := s.load[one.hash]
		if l == nil {
			if len(s.load) >= maxNoted {
				return
			}
			l = &fanout.Load{}
			s.load[one.hash] = l
		}
		l.Requests, l.Errors = load.Add(l.Requests, e.Load.Requests), load.Add(l.Errors, e.Load.Errors)
	case e.Ended && !e.Lost:
	case e.Ended:
		s.lost = remember(s.lost, one)
	case e.Exposure == fanout.Rejected:
		delete(s.accepted, one.hash)
		if s.hasLocked(&one) {
			return // it was found once more; see fanout.Server.Observe
		}
		s.rejected = remember(s.rejected, one)
	default:
		note(s.accepted, one.hash)
	}
	if s.arms != nil && s.arms.isCanary(one.hash) {
		s.arms.notify(e)
	}
	s.touched()
}

// hasLocked reports whether a rejection is known.
func (s *sightings) hasLocked(one *sighting) bool {
	return slices.ContainsFunc(s.rejected, func(e sighting) bool {
		return e.hash == one.hash && e.Type == one.Type && e.At.Equal(one.At)
	})
}

// remember adds an event, the newest last.
func remember(all []sighting, one sighting) []sighting {
	if len(all) >= maxSightings {
		all = append(all[:0:0], all[len(all)/2:]...)
	}
	return append(all, one)
}

// judge makes arms count what their canaries have done since the revision was sent first, and from now on.
// They know that of some already. Nil: nobody counts any more.
func (s *sightings) judge(a *arms, known rollout.Roster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arms = a
	if a == nil {
		return
	}
	isNew := func(h rollout.Hash) bool { return a.isCanary(h) && !known.Has(h) }
	for h := range s.accepted {
		if isNew(h) {
			a.accepts(h)
		}
	}
	for _, all := range [][]sighting{s.rejected, s.lost} {
		for _, e := range all {
			if !e.At.Before(s.since) && isNew(e.hash) {
				a.notify(e.CanaryEvent)
			}
		}
	}
	for h, l := range s.load {
		if isNew(h) {
			a.notify(fanout.CanaryEvent{Arm: fanout.CanaryArm, Load: l})
		}
	}
}

// before is what clients have done before the revision, in a time that is as long as the one since then or
// longer: all of them, which are about as many as now. It has no clients if that is not known.
func (s *sightings) before(clients int, now time.Time) (a rollout.Arm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Requests, a.Errors = s.earlier.Requests, s.earlier.Errors
	over := now.Sub(s.since)
	known := min(s.since.Sub(s.began), comparedFor, max(over, comparedAtLeast))
	if known < leastKnown || clients == 0 {
		return a
	}
	lost := make(map[rollout.Hash]bool)
	for _, e := range s.lost {
		if e.At.Before(s.since) && !e.At.Before(s.since.Add(-known)) {
			lost[e.hash] = true
		}
	}
	a.Clients = max(clients, len(lost))
	a.Lost = len(lost)
	return a.Scaled(known, over)
}

// Observed is what all clients have done since a revision that is only observed.
type Observed struct {
	// Clients are connected. Rejected, Lost and Unanswered are how many clients have rejected the revision,
	// have ended their streams, or have not answered.
	Clients    int `json:"clients"`
	Rejected   int `json:"rejected"`
	Lost       int `json:"lost"`
	Unanswered int `json:"unanswered"`
}

// all counts what all clients have done since the revision.
func (s *sightings) all(stands []standing, within time.Duration) (o Observed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	distinct := func(all []sighting) int {
		seen := make(map[rollout.Hash]bool)
		for _, e := range all {
			if !e.At.Before(s.since) {
				seen[e.hash] = true
			}
		}
		return len(seen)
	}
	o.Rejected, o.Lost = distinct(s.rejected), distinct(s.lost)
	clients, late := make(map[rollout.Hash]bool), make(map[rollout.Hash]bool)
	for _, one := range stands {
		clients[one.Hash] = true
		if one.Exposure == fanout.Exposed && within > 0 && one.Waits >= within {
			late[one.Hash] = true
		}
	}
	o.Clients, o.Unanswered = len(clients), len(late)
	return o
}
