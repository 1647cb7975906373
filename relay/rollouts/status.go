package rollouts

import (
	"slices"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/rollout"
)

// Decision is something that was decided about a revision, by the policy or by an order.
type Decision struct {
	At       time.Time `json:"at"`
	Key      string    `json:"key"`
	Revision string    `json:"revision,omitempty"`
	// What is one of [Decisions].
	What string `json:"what"`
	// State is the state afterwards.
	State string `json:"state"`
	// Why is the verdict that failed, or the reason of an order.
	Why string `json:"why,omitempty"`
	By  string `json:"by,omitempty"`
	// Canaries is how many clients have the revision, of Affected ones.
	Canaries int `json:"canaries"`
	Affected int `json:"affected"`
	// Observed says that nothing was carried out: the mode of the policy is observe.
	Observed bool `json:"observed,omitempty"`

	Trouble
}

// maxDecisions bounds the decisions that are kept of a key.
const maxDecisions = 20

// decided records a decision.
func (k *key) decided(what string, now time.Time) { k.decidedBy(what, "", "", now) }

func (k *key) decidedBy(what, by, why string, now time.Time) {
	d := Decision{
		At: now, Key: k.name(), Revision: k.state.Run.Revision.String(), What: what, State: k.state.State.String(), By: by, Why: why,
		Canaries: len(k.state.Run.Canaries.Hashes), Affected: len(k.people.affected),
	}
	if what == decidedFailed {
		trouble := k.trouble()
		d.Why, d.Canaries, d.Trouble = k.state.Why.Reasons(), k.counts.Canary.Clients, trouble.kept()
	}
	if len(k.history) >= maxDecisions {
		k.history = append(k.history[:0:0], k.history[1:]...)
	}
	k.history = append(k.history, d)
	if k.c.cfg.Decided != nil {
		k.c.cfg.Decided(d)
	}
	k.reports(&d)
}

// Status is how far a key is.
type Status struct {
	Key string `json:"key"`
	// Role is what the node does: it decides, follows the one that does, or only observes.
	Role   string `json:"role"`
	Policy string `json:"policy"`
	Mode   string `json:"mode"`
	// State is the phase and what it needs next, and Waits why nothing is done; empty if something is.
	State string `json:"state"`
	Waits string `json:"waits,omitempty"`
	// Revision is the one on its way, being proven, or refused; Stable the one of all clients, and Good
	// the last one that passed its final bake.
	Revision string   `json:"revision,omitempty"`
	Stable   string   `json:"stable,omitempty"`
	Good     string   `json:"good,omitempty"`
	Refused  []string `json:"refused,omitempty"`
	// Step is 0 for the scouts, or where the revision was refused. The last of Steps is the one to all
	// clients.
	Step     int           `json:"step"`
	Steps    int           `json:"steps"`
	Share    rollout.Share `json:"share"`
	BakeEnds time.Time     `json:"bake_ends,omitzero"`
	Canaries int           `json:"canaries"`
	Affected int           `json:"affected"`
	// Exposed is how many clients were sent the revision, also if it was taken back.
	Exposed int `json:"exposed"`
	// Canary and Control are what was counted in the step; nil if nothing was.
	Canary  *ArmStatus `json:"canary,omitempty"`
	Control *ArmStatus `json:"control,omitempty"`
	// Schedule are all steps, of which Step is the index. Next is what happens next, or has to be done.
	Schedule []PlanStep `json:"schedule,omitempty"`
	Next     string     `json:"next,omitempty"`
	// Findings are what each signal says.
	Findings []string `json:"findings,omitempty"`

	Trouble

	// Observed is what all clients have done with a revision that is only observed: all fields are about the
	// rollout that would have been. Nil: the policy is carried out, or there is no revision.
	Observed *Observed `json:"observed,omitempty"`
	// Tokens are those of the budget that the key holds.
	Tokens int `json:"tokens,omitempty"`
	// IsOverdue says that it takes longer than the policy expects.
	IsOverdue bool       `json:"overdue,omitempty"`
	History   []Decision `json:"history,omitempty"`
}

// Observes reports whether the policy only observes, so that all is about a rollout that would be.
func (s *Status) Observes() bool { return s.Mode == string(rollout.Observe) }

// Status returns how far a key is; false if it has no policy, or no clients.
func (c *Controller) Status(name string) (Status, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.keyNamed(name); k != nil {
		return k.status(time.Now()), true
	}
	if o := c.observationNamed(name); o != nil {
		return o.status(time.Now()), true
	}
	return Status{}, false
}

// All returns all keys with a policy, in no order.
func (c *Controller) All() (all []Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, k := range c.keys {
		all = append(all, k.status(now))
	}
	for g, r := range c.resting {
		all = append(all, c.rested(g, r).status(now))
	}
	for _, o := range c.observing.keys {
		all = append(all, o.status(now))
	}
	return all
}

// IsUnproven reports whether clients of a key have content of a type that has not passed its final bake, so
// that it must not become last known good.
func (c *Controller) IsUnproven(g *cache.Group, t *resource.Type) bool {
	if !g.IsGoverned() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[g]
	return k != nil && k.rule.types[t.URL] && k.isUnproven()
}

// keyNamed returns a key, which no longer rests; nil if it has no policy, or no clients.
func (c *Controller) keyNamed(name string) *key {
	g := c.cfg.Group(aggregation.Key(name))
	if g == nil {
		return nil
	}
	return c.wakeLocked(g)
}

// troubleBefore is that of the revision in an earlier process.
func (k *key) troubleBefore() Trouble {
	for _, d := range slices.Backward(k.history) {
		if d.What == decidedFailed && d.Revision == k.state.Run.Revision.String() {
			return d.Trouble
		}
	}
	return Trouble{}
}

func (k *key) status(now time.Time) Status {
	run, policy := &k.state.Run, k.state.Policy()
	if k.state.IsJudged() && run.Policy != nil {
		policy = run.Policy
	}
	s := Status{
		Key: k.name(), Role: k.role.String(), Policy: policy.Name, Mode: string(policy.Mode), State: k.state.State.String(), Waits: k.why.String(),
		Stable: k.state.Stable.String(), Good: k.state.Good.String(), Canaries: len(run.Canaries.Hashes), Affected: len(k.people.affected),
		Tokens: k.c.budget.Held[k.name()].Count, IsOverdue: k.state.IsOverdue(now), History: append([]Decision(nil), k.history...),
	}
	for _, d := range k.state.Refused {
		s.Refused = append(s.Refused, d.String())
	}
	switch {
	case k.state.Brake != rollout.Open:
		s.Waits = k.state.Brakes.String()
	case k.next != nothing:
		s.Waits = "records cannot be written"
	}
	if k.state.Phase != rollout.Idle && k.state.Phase != rollout.Settling {
		s.Revision = run.Revision.String()
		verdict := &k.verdict
		if k.arms != nil {
			s.Trouble = k.trouble()
		} else if s.Trouble = k.troubleBefore(); k.state.Phase == rollout.Held {
			verdict = &k.state.Why
		}
		for _, f := range verdict.Findings {
			if f.Outcome != rollout.NotMeasured {
				s.Findings = append(s.Findings, f.String())
			}
		}
	}
	if k.state.IsJudged() {
		s.Share = run.Share()
		if k.state.Need == rollout.Bake {
			s.BakeEnds = run.BakeEnds
		}
	}
	if k.state.Phase == rollout.Idle {
		s.Waits = ""
	}
	if k.role != Deciding {
		s.State = k.role.String()
		if f := k.follows; f != nil {
			s.Revision, s.Canaries = f.m.Revision, len(f.m.Canaries.Hashes)
		}
	}
	k.progress(&s, policy)
	return s
}
