package rollouts

import (
	"slices"
	"time"

	"xdsrelay/relay/rollout"
)

// Decisions are what is decided about revisions: by a policy, or by an order.
var Decisions = []string{
	decidedStarted, decidedWaiting, decidedStep, decidedRefilled, decidedOutgrown, decidedPassed, decidedPromoted, decidedFailed, decidedRefused, decidedWithdrawn,
	Approve, Pause, Resume, Abort, Retry, Promote, Undo, Freeze, Unfreeze,
}

const (
	decidedStarted   = "started"
	decidedWaiting   = "waiting" // for an approval
	decidedStep      = "step"
	decidedRefilled  = "refilled"
	decidedOutgrown  = "outgrown"
	decidedPassed    = "passed"
	decidedPromoted  = "promoted"
	decidedFailed    = "failed"
	decidedRefused   = "refused"
	decidedWithdrawn = "withdrawn"
)

// widening are the decisions that clients are shown once the record has them.
var widening = []string{decidedStep, decidedRefilled, decidedPromoted}

// Effective is a decision that takes effect.
type Effective struct {
	Decision

	Policy string
	// Step is 0 for the scouts. The last of Steps is the one to all clients, with a share of 100%.
	Step, Steps int
	Share       rollout.Share
	// Over says that no rollout is under way any more, nor is there a final bake.
	Over bool
}

// reports passes on a decision that takes effect now. One that widens waits until clients are shown it.
func (k *key) reports(d *Decision) {
	if k.c.cfg.Effective == nil || k.role != Deciding {
		return
	}
	e := &Effective{Decision: *d, Policy: k.state.Policy().Name, Over: !k.state.IsJudged()}
	if run := k.state.Run; run.Policy != nil {
		if d.What == decidedPassed && k.state.IsUnderWay() {
			run.Step-- // it is the next one already
		}
		e.Policy, e.Step, e.Steps, e.Share = run.Policy.Name, run.Step, len(run.Policy.Steps)+1, run.Share()
		if run.Small {
			e.Steps = 1
		}
	}
	if slices.Contains(widening, d.What) {
		k.unshown = e
		return
	}
	k.c.cfg.Effective(e)
}

// shows passes on a decision, if any, that clients have just been shown.
func (k *key) shows(e *Effective) {
	if e != nil {
		k.c.cfg.Effective(e)
	}
}

// waitsForApproval records that an operator has to approve the step: once, also if another node continues.
func (k *key) waitsForApproval(now time.Time) {
	if n := len(k.history); n > 0 && k.history[n-1].What == decidedWaiting && k.history[n-1].Revision == k.state.Run.Revision.String() {
		return
	}
	k.decided(decidedWaiting, now)
	k.changed()
}
