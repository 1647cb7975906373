package rollouts

import (
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/rollout"
)

// What operators see of a rollout besides its state: both arms, the steps, what is next, and the budget.

// StateIdle is the state of a key of which all clients have what the control plane sent, and StateHeld how
// that of a key begins of which a revision was refused.
const (
	StateIdle = "Idle"
	StateHeld = "Held"
)

// ArmStatus is what was counted of the canaries of a revision, or of their control group, in a step.
type ArmStatus struct {
	// Clients were in the arm at any time of the step, and Connected are those that are connected.
	Clients   int `json:"clients"`
	Connected int `json:"connected"`
	// Accepted, Rejected and Unanswered are zero for the control group, which is sent nothing.
	Accepted   int `json:"accepted"`
	Rejected   int `json:"rejected"`
	Unanswered int `json:"unanswered"`
	// Lost are those whose streams have ended, and this side did not end them.
	Lost int `json:"lost"`
	// Requests and Errors are those of load reports.
	Requests uint64 `json:"requests"`
	Errors   uint64 `json:"errors"`
}

func armStatus(a *rollout.Arm) *ArmStatus {
	return &ArmStatus{
		Clients: a.Clients, Connected: a.Present, Accepted: a.Answered, Rejected: max(a.Rejected, a.NACKs), Unanswered: a.Late,
		Lost: a.Lost, Requests: a.Requests, Errors: a.Errors,
	}
}

// BudgetStatus is how much of the budget is in use, and what the breaker does.
type BudgetStatus struct {
	// Share is the part of all Clients that may have unproven revisions now, Limit how many that are, and
	// Used how many of these are taken.
	Share   rollout.Share `json:"share"`
	Clients int           `json:"clients"`
	Limit   int           `json:"limit"`
	Used    int           `json:"used"`
	// Failures are those within the time of the breaker, which opens at MaxFailures; 0: never. While it is
	// open, no rollout starts.
	Failures    int  `json:"failures"`
	MaxFailures int  `json:"max_failures"`
	IsOpen      bool `json:"breaker_open"`
	// Written counts the changes of the budget of a tier: of several nodes, the one that knows more
	// is right.
	Written uint64 `json:"written,omitempty"`
}

// Budget returns the state of the budget; false if no key has a policy.
func (c *Controller) Budget() (s BudgetStatus, governs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	limits, clients, now := c.cfg.Limits(), c.cfg.Total(), time.Now()
	s = BudgetStatus{
		Share: c.budget.Share(&limits, now), Clients: clients, Limit: c.budget.Limit(&limits, clients, now), Used: c.budget.Used(),
		MaxFailures: limits.Failures, IsOpen: c.budget.Open, Written: c.tier.budgetSeq,
	}
	for _, at := range c.budget.Failures {
		if now.Sub(at) <= limits.Within {
			s.Failures++
		}
	}
	return s, len(c.keys)+len(c.resting)+len(c.observing.keys) > 0
}

// schedule are the steps of a policy: the scouts, those of the policy unless the key is small, and all.
func schedule(p *rollout.Policy, small bool) []PlanStep {
	scouts := PlanStep{Name: "scouts", Approve: p.NeedsApproval(0)}
	if small && len(p.Steps) > 0 {
		scouts.Bake = p.Steps[0].Bake
	}
	steps := []PlanStep{scouts}
	approve := false
	for i, step := range p.Steps {
		one := PlanStep{Name: step.Share.String(), Bake: step.Bake, Approve: p.NeedsApproval(i + 1)}
		if small {
			approve = approve || one.Approve // the step to all replaces it
			continue
		}
		steps = append(steps, one)
	}
	return append(steps, PlanStep{Name: "all", Bake: p.Final, Approve: approve || p.NeedsApproval(len(p.Steps)+1)})
}

// progress adds the arms, the steps and what is next to a status.
func (k *key) progress(s *Status, policy *rollout.Policy) {
	s.Next = k.nextWords(policy)
	if s.Revision == "" || k.role != Deciding {
		return
	}
	run := &k.state.Run
	if run.Policy != nil {
		policy = run.Policy // also that of one that was refused
	}
	if k.arms != nil && k.counts.Canary.Clients > 0 {
		s.Canary, s.Control = armStatus(&k.counts.Canary), armStatus(&k.counts.Control)
		by := make(map[string]bool) // also those whose answers arrived after the verdict
		for _, r := range s.Rejections {
			by[r.Client] = true
		}
		s.Canary.Rejected = max(s.Canary.Rejected, len(by))
	}
	s.Exposed = max(s.Canaries, k.counts.Canary.Clients)
	for _, d := range slices.Backward(k.history) { // what is not counted any more, as after a restart
		if d.Revision == s.Revision {
			s.Exposed, s.Affected = max(s.Exposed, d.Canaries), max(s.Affected, d.Affected)
		}
	}
	s.steps(policy, run)
}

// steps adds the steps of a policy for the affected clients, and which one the rollout is in.
func (s *Status) steps(policy *rollout.Policy, run *rollout.Run) {
	s.Schedule = schedule(policy, run.Small)
	s.Step, s.Steps = min(run.Step, len(s.Schedule)-1), len(s.Schedule)-1
	for i := range s.Schedule {
		if share := rollout.Share(1); i > 0 && s.Affected > 0 {
			if i <= len(policy.Steps) && !run.Small {
				share = policy.Steps[i-1].Share
			}
			s.Schedule[i].Clients = share.Of(s.Affected)
		}
	}
}

// nextWords is what happens next, or what has to be done for it.
func (k *key) nextWords(policy *rollout.Policy) string {
	is := k.state
	switch {
	case k.role != Deciding, is.Phase == rollout.Idle && is.Brake == rollout.Open:
		return ""
	case is.Brakes.Has(rollout.Frozen):
		return "nothing, until 'xdsrelay rollout unfreeze'"
	case is.Brakes.Has(rollout.Paused):
		return "nothing, until 'xdsrelay rollout resume'; the step then starts its bake again"
	case is.Brakes.Has(rollout.MixedVersions):
		return "continues by itself when all nodes of the tier support rollouts: upgrade them"
	case is.Brake != rollout.Open:
		return "continues by itself when the nodes of the tier can agree again"
	}
	switch is.Need {
	case rollout.Quiet:
		if is.Phase == rollout.Held {
			return "a rollout of what the control plane sends now"
		}
		return "a rollout, once the control plane sends nothing more for " + is.Policy().Settle.Quiet.String()
	case rollout.Approval:
		return k.stepWords(policy, is.Run.Step) + ", after 'xdsrelay rollout approve'"
	case rollout.Tokens:
		if k.why == rollout.ForBreaker {
			return k.stepWords(policy, is.Run.Step) + ", after 'xdsrelay rollout resume --all' has closed the breaker"
		}
		return k.stepWords(policy, is.Run.Step) + ", once the budget has room"
	case rollout.Write:
		return k.stepWords(policy, is.Run.Step)
	case rollout.Bake:
		return k.afterBake(policy)
	}
	return "a rollout starts by itself when the control plane sends something else; or: 'xdsrelay rollout retry'"
}

// afterBake is what follows the bake of a step.
func (k *key) afterBake(policy *rollout.Policy) string {
	switch k.state.Phase {
	case rollout.Proving:
		return "the revision is good after the final bake, and becomes last known good"
	case rollout.Scouting:
		return k.stepWords(policy, k.state.Run.Step+1) + ", once all scouts have accepted the revision"
	}
	return k.stepWords(policy, k.state.Run.Step+1) + ", after the bake"
}

// stepWords is a step in words.
func (k *key) stepWords(policy *rollout.Policy, step int) string {
	all := schedule(policy, k.state.Run.Small)
	one := all[min(step, len(all)-1)]
	switch one.Name {
	case "scouts":
		return "scouts, one client of each software version"
	case "all":
		return "all clients, for a final bake of " + short(one.Bake)
	}
	return one.Name + " of the clients for " + short(one.Bake)
}

// short is a duration without parts that are zero, such as 10m.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
