package rollouts

import (
	"maps"
	"slices"
	"sync"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/load"
	"xdsrelay/relay/rollout"
)

// arms are the canaries of a revision and their control group, and what has become of them. They are made
// for each revision.
type arms struct {
	hash    func(fanout.Canary) rollout.Hash
	touched func()
	limit   int // NACKs that end the revision; 0 for none

	mu sync.Mutex
	// Guarded by mu.
	canaries, control rollout.Roster
	number            int  // of the step; 0 before the first
	final             bool // all clients are canaries
	braked            bool // no further client gets the candidate
	quarantine        map[rollout.Hash]bool
	accepted          map[rollout.Hash]bool
	seen              [2]map[rollout.Hash]bool // in the step: canaries, control group
	lost              [2]map[rollout.Hash]bool // in the step
	load              [2]fanout.Load           // in the step
	rejectedBy        map[string]bool          // distinct identities or sources
	trouble           Trouble                  // names are not looked for, and texts not cut
	known             int                      // so many rejections of trouble have their names
	firstRejection    time.Time
}

func newArms(hash func(fanout.Canary) rollout.Hash, limit int, touched func()) *arms {
	a := &arms{hash: hash, limit: limit, touched: touched, quarantine: make(map[rollout.Hash]bool), accepted: make(map[rollout.Hash]bool), rejectedBy: make(map[string]bool)}
	a.begin()
	return a
}

// begin forgets what was counted in the step before. a.mu must be held, or nobody else knows a.
func (a *arms) begin() {
	for i := range a.seen {
		a.seen[i], a.lost[i], a.load[i] = make(map[rollout.Hash]bool), make(map[rollout.Hash]bool), fanout.Load{}
	}
}

// step sets the arms of a step. What was counted lasts as long as the step does, also where it begins again
// or other canaries replace those that have left: otherwise a revision could crash all clients, one by one.
func (a *arms) step(number int, canaries, control rollout.Roster, lost rollout.Roster) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.canaries, a.control = canaries, control
	for _, h := range lost.Hashes {
		a.quarantine[h] = true
	}
	if number != a.number {
		a.number = number
		a.begin()
	}
}

// finish makes all clients canaries.
func (a *arms) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.final = true
	a.begin()
}

// brake makes no further client get the candidate.
func (a *arms) brake() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.braked = true
}

// of returns the arm of a client; see [fanout.Server.Show].
func (a *arms) of(c fanout.Canary) fanout.Arm {
	h := a.hash(c)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.canaries.Has(h):
		if a.braked || a.quarantine[h] {
			return fanout.NoArm
		}
		return fanout.CanaryArm
	case a.control.Has(h):
		return fanout.ControlArm
	}
	return fanout.NoArm
}

// isCanary reports whether a client counts as a canary, quarantined or not.
func (a *arms) isCanary(h rollout.Hash) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.final || a.canaries.Has(h)
}

// isObserved reports whether a client counts as a canary and, if the revision was not for all, would still
// have it after what it has done.
func (a *arms) isObserved(h rollout.Hash) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.final || a.canaries.Has(h) && !a.quarantine[h]
}

// accepts records that a client has accepted the revision.
func (a *arms) accepts(h rollout.Hash) {
	a.mu.Lock()
	defer a.mu.Unlock()
	note(a.accepted, h)
}

// notify records what a client has done; see [fanout.Server.Show].
func (a *arms) notify(e fanout.CanaryEvent) {
	h := a.hash(e.Canary)
	a.mu.Lock()
	defer a.mu.Unlock()
	arm := 0
	if e.Arm == fanout.ControlArm {
		arm = 1
	}
	if e.Load != nil {
		of := &a.load[arm]
		of.Requests, of.Errors = load.Add(of.Requests, e.Load.Requests), load.Add(of.Errors, e.Load.Errors)
		return // a canary is looked at each second anyway
	}
	note(a.seen[arm], h)
	switch {
	case e.Ended && !e.Lost:
		return
	case e.Ended:
		note(a.lost[arm], h)
		if arm == 0 && !a.final {
			a.quarantine[h] = true // it gets the stable revision until this one is good
		}
		if arm == 0 && len(a.trouble.Lost) < maxTrouble {
			a.trouble.Lost = append(a.trouble.Lost, Unwell{e.ID, e.Type, e.At})
		}
	case e.Exposure == fanout.Rejected:
		a.rejectLocked(e, h)
	default:
		note(a.accepted, h)
	}
	a.touched()
}

// maxNoted bounds a set of clients: in the final bake all clients are canaries, and they choose their ids.
const maxNoted = 2 * rollout.MaxExact

func note(set map[rollout.Hash]bool, h rollout.Hash) {
	if len(set) < maxNoted {
		set[h] = true
	}
}

func (a *arms) rejectLocked(e fanout.CanaryEvent, h rollout.Hash) {
	delete(a.accepted, h)
	by := "identity " + e.Identity
	if e.Identity == "" {
		by = "source " + e.Source // an id is a claim, so one source counts once
	}
	a.rejectedBy[by] = true
	if a.firstRejection.IsZero() {
		a.firstRejection = e.At
	}
	if len(a.trouble.Rejections) < maxTrouble {
		a.trouble.Rejections = append(a.trouble.Rejections, Rejection{Client: e.ID, Type: e.Type, Reason: e.Reason, At: e.At})
	}
	if a.limit > 0 && len(a.rejectedBy) >= a.limit {
		a.braked = true // before anybody has decided
	}
}

// quarantined are the canaries that were lost.
func (a *arms) quarantined() rollout.Roster {
	a.mu.Lock()
	defer a.mu.Unlock()
	return rollout.RosterOf(slices.Collect(maps.Keys(a.quarantine))...)
}

// counts are what a verdict is made of, from how the clients of both arms stand now; see setUnaffected.
func (a *arms) counts(all []standing, within time.Duration) (c rollout.Counts) {
	type stand struct {
		exposure         fanout.Exposure
		late, unaffected bool
	}
	canaries := make(map[rollout.Hash]stand)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trouble.Unanswered = nil
	for _, one := range all {
		if one.Control {
			note(a.seen[1], one.Hash)
			c.Control.Present++
			continue
		}
		note(a.seen[0], one.Hash)
		late := one.Exposure == fanout.Exposed && within > 0 && one.Waits >= within
		if late && !a.final && len(a.trouble.Unanswered) < maxTrouble {
			a.trouble.Unanswered = append(a.trouble.Unanswered, Unwell{one.Client, one.Type, one.Since})
		}
		was, other := canaries[one.Hash] // by another stream of the client
		canaries[one.Hash] = stand{max(was.exposure, one.Exposure), was.late || late, one.Unaffected && (was.unaffected || !other)}
	}
	for h, one := range canaries {
		c.Canary.Present++
		switch {
		case one.late:
			c.Canary.Late++
		case one.exposure == fanout.Accepted, one.exposure == fanout.NotExposed && (a.final || a.accepted[h] || one.unaffected):
			c.Canary.Answered++
		case one.exposure == fanout.Rejected:
			c.Canary.Rejected++
		}
	}
	c.Canary.NACKs = len(a.rejectedBy)
	c.Canary.Clients, c.Canary.Lost = len(a.seen[0]), len(a.lost[0])
	c.Control.Clients, c.Control.Lost = len(a.seen[1]), len(a.lost[1])
	c.Canary.Requests, c.Canary.Errors = a.load[0].Requests, a.load[0].Errors
	c.Control.Requests, c.Control.Errors = a.load[1].Requests, a.load[1].Errors
	if c.Final = a.final; c.Final {
		c.Canary.Late = 0 // one of all clients is always slow
	}
	return c
}
