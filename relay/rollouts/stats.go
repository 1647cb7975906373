package rollouts

import (
	"maps"
	"time"

	"xdsrelay/relay/rollout"
)

// Ending is how the rollout of a revision has ended.
type Ending uint8

// The endings.
const (
	// EndedGood: it has passed its final bake.
	EndedGood Ending = iota
	// EndedFailed: a verdict has failed.
	EndedFailed
	// EndedAborted, EndedSkipped and EndedUndone: an operator has aborted it, promoted it without checks,
	// or returned all clients to the revision before.
	EndedAborted
	EndedSkipped
	EndedUndone
	// EndedSuperseded: a newer revision has started.
	EndedSuperseded
	// EndedWithdrawn: the control plane has returned to the stable content.
	EndedWithdrawn
	// EndedDropped: the key has no policy any more, or no clients.
	EndedDropped
	endings
)

var endingNames = [endings]string{"good", "failed", "aborted", "skipped", "undone", "superseded", "withdrawn", "dropped"}

func (e Ending) String() string { return endingNames[e] }

// Judgment is what a signal said when a bake passed or a verdict failed.
type Judgment struct {
	Signal  rollout.Signal
	Outcome rollout.Outcome
}

// counters are what a controller counts. Controller.mu guards them.
type counters struct {
	started, skipped uint64
	ended            [endings]uint64
	judged           map[Judgment]uint64
}

// judges counts what the signals of a verdict say.
func (c *counters) judges(v *rollout.Verdict) {
	if c.judged == nil {
		c.judged = make(map[Judgment]uint64)
	}
	for _, f := range v.Findings {
		c.judged[Judgment{f.Signal, f.Outcome}]++
	}
}

// starts counts the start of the rollout of a key.
func (k *key) starts() {
	k.running = true
	k.c.counts.started++
}

// ends counts the end of the rollout of a key, if there is one.
func (k *key) ends(as Ending) {
	if k.running {
		k.running = false
		k.c.counts.ended[as]++
	}
}

// Stats are what a controller has counted, and how its keys are, all together.
type Stats struct {
	// Started are rollouts, and Ended those that have ended, by [Ending]. Skipped are orders to promote
	// without checks.
	Started, Skipped uint64
	Ended            map[Ending]uint64
	Judged           map[Judgment]uint64
	// ObservedEnded and ObservedJudged are the same of rollouts that are only observed.
	ObservedEnded  map[Ending]uint64
	ObservedJudged map[Judgment]uint64
	// Keys are those with something that not all clients have, or that is not proven, by phase; Waiting
	// those that wait, by reason.
	Keys    map[rollout.Phase]int
	Waiting map[rollout.Reason]int
	// WaitingSince is since when the key has waited for a reason that has waited longest.
	WaitingSince map[rollout.Reason]time.Time
	// Suspended are keys whose rollout cannot go on: a node of the tier does not support rollouts, or the
	// records cannot be read or written.
	Suspended int
	// Exposed is how many clients have revisions as canaries. Overdue are keys whose rollout takes longer
	// than its policy expects.
	Exposed, Overdue int
	// Asked are the answers to checks.
	Asked map[Answered]uint64
	// Oldest is since when something of a key has been pending without a pause; zero if nothing is.
	Oldest time.Time
	// BreakerOpen says that no rollout starts.
	BreakerOpen bool
}

// Stats returns what the controller has counted, and how its keys are.
func (c *Controller) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Stats{
		Started: c.counts.started, Skipped: c.counts.skipped, BreakerOpen: c.budget.Open,
		Ended: make(map[Ending]uint64), Judged: make(map[Judgment]uint64), ObservedEnded: make(map[Ending]uint64), ObservedJudged: make(map[Judgment]uint64), Keys: make(map[rollout.Phase]int), Waiting: make(map[rollout.Reason]int), WaitingSince: make(map[rollout.Reason]time.Time),
	}
	for e, n := range c.counts.ended {
		s.Ended[Ending(e)] = n
	}
	for _, e := range []Ending{EndedGood, EndedFailed, EndedSuperseded, EndedWithdrawn, EndedDropped} { // there are no orders
		s.ObservedEnded[e] = c.observing.ended[e]
	}
	maps.Copy(s.Judged, c.counts.judged)
	maps.Copy(s.ObservedJudged, c.observing.judged)
	s.Asked = maps.Clone(c.asking.counts)
	now := time.Now()
	for _, k := range c.keys {
		if k.isSuspended() {
			s.Suspended++
		}
		if k.state.Phase == rollout.Idle {
			continue
		}
		s.Keys[k.state.Phase]++
		if k.state.Brake == rollout.Open && k.why != rollout.NoReason {
			s.Waiting[k.why]++
			if at, has := s.WaitingSince[k.why]; !has || k.whySince.Before(at) {
				s.WaitingSince[k.why] = k.whySince
			}
		}
		if k.state.IsUnderWay() {
			s.Exposed += len(k.state.Run.Canaries.Hashes)
		}
		if k.state.IsOverdue(now) {
			s.Overdue++
		}
		if at := k.pendingSince; !at.IsZero() && (s.Oldest.IsZero() || at.Before(s.Oldest)) {
			s.Oldest = at
		}
	}
	return s
}

// isSuspended reports whether the tier or the records keep the rollout of the key from going on.
func (k *key) isSuspended() bool {
	switch {
	case k.role == Claiming:
		return !k.pendingSince.IsZero()
	case k.role != Deciding:
		return false
	case k.next != nothing:
		return k.c.tier.failing || !k.c.retryAt.IsZero()
	}
	return k.state.Phase != rollout.Idle && k.state.Brakes.IsSuspended()
}
