package rollouts

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"xdsrelay/relay/rollout"
)

// The orders about rollouts.
const (
	Approve  = "approve"
	Pause    = "pause"
	Resume   = "resume"
	Abort    = "abort"
	Retry    = "retry"
	Promote  = "promote"
	Undo     = "undo"
	Freeze   = "freeze"
	Unfreeze = "unfreeze"
)

// ErrNoPolicy refuses orders about keys whose changes pass at once.
var ErrNoPolicy = errors.New("the key has no rollout policy (aggregation.rules[].rollout), or no clients")

// ErrObserves refuses orders about keys whose policy only observes.
var ErrObserves = errors.New("the rollout policy of the key only observes (mode: observe): all changes pass at once, so there is no rollout to steer")

// ErrNotDeciding refuses orders on a node that does not decide about the key: another one owns it, or the
// record of the key has not been read yet.
var ErrNotDeciding = errors.New("this node does not decide about the key yet: it does not own it, or cannot read the record of the key in Redis")

// Has reports whether a key has a policy, and clients.
func (c *Controller) Has(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keyNamed(name) != nil
}

// Order carries out an order about a key. The error says why nothing was changed.
func (c *Controller) Order(what, name, by, reason string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keyNamed(name)
	switch {
	case k == nil && c.observationNamed(name) != nil:
		return ErrObserves
	case k == nil:
		return ErrNoPolicy
	case k.role != Deciding:
		return ErrNotDeciding
	}
	now := time.Now()
	effect, err := k.order(what, rollout.Order{By: by, Why: reason, At: now}, now)
	if err != nil {
		return err
	}
	k.changed()
	k.decidedBy(what, by, reason, now)
	switch what {
	case Abort:
		k.ends(EndedAborted)
	case Undo:
		k.ends(EndedUndone)
	case Promote:
		c.counts.skipped++
		k.ends(EndedSkipped)
	}
	k.carry(effect, now)
	c.reveal(now)
	k.evaluate(now)
	c.reveal(now)
	c.inbox.signal() // the time of the next look may be another
	return nil
}

func (k *key) order(what string, o rollout.Order, now time.Time) (rollout.Effect, error) {
	switch what {
	case Approve:
		return 0, k.state.Approve(now)
	case Pause:
		return 0, k.state.Pause(o)
	case Resume:
		return k.state.Resume(now)
	case Abort:
		return k.state.Abort(now)
	case Retry:
		return k.state.Retry(now)
	case Promote:
		return k.state.Promote(digestOf(k.group.CutOverlay()), now)
	case Undo:
		if len(k.state.Former) == 0 {
			return 0, rollout.ErrNoFormer
		}
		if err := k.noContents(); err != nil {
			return 0, fmt.Errorf("%w (%s was before %s)", err, k.state.Former[0], k.state.Stable)
		}
		return k.state.Undo(now)
	}
	return 0, fmt.Errorf("%q is no order about a rollout", what)
}

// ResumeAll closes the breaker, so that rollouts may start again. It reports whether it was open; in a tier,
// whether it may have been.
func (c *Controller) ResumeAll() (was bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was = c.budget.Open || c.cfg.Tier != nil
	c.budgetChanges(budgetOp{what: resets}, time.Now())
	c.unsaved = true
	for g := range c.keys {
		c.inbox.touch(g)
	}
	return was
}

// SetFrozen makes all keys follow an order that the cache has already: it has frozen them, or ended that.
func (c *Controller) SetFrozen(by, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.wakeAllLocked()
	for g, k := range c.keys {
		if k.role == Deciding && k.setFrozen(by, reason, now) {
			c.inbox.change(g)
		}
	}
}

// setFrozen makes a key follow the orders of the cache. It reports whether it was frozen, or that has ended.
func (k *key) setFrozen(by, reason string, now time.Time) bool {
	held, is := isFrozen(k.group), k.state.Brakes.Has(rollout.Frozen)
	switch {
	case held && !is:
		k.state.Freeze(rollout.Order{By: by, Why: reason, At: now})
		k.decidedBy(Freeze, by, reason, now)
	case !held && is:
		effect, _ := k.state.Unfreeze(now) // it is frozen
		k.decidedBy(Unfreeze, by, reason, now)
		k.carry(effect, now)
	default:
		return false
	}
	k.changed()
	return true
}

// Plan is who would be the canaries of a key.
type Plan struct {
	Key string `json:"key"`
	// Policy is empty if all changes pass at once.
	Policy string `json:"policy"`
	// Revision is what is pending, or with Observed what clients have got last; empty if there is none.
	Revision string `json:"revision,omitempty"`
	// Observed says that the mode of the policy is observe, so that all clients have got the revision at once.
	Observed bool `json:"observed,omitempty"`
	// Affected clients see a pending change, and Eligible ones of them may be canaries.
	Affected int        `json:"affected"`
	Eligible int        `json:"eligible"`
	Small    bool       `json:"small,omitempty"`
	Steps    []PlanStep `json:"steps"`
}

// PlanStep is a step of a plan. The first one is that of the scouts.
type PlanStep struct {
	Name string `json:"name"`
	// Clients is 0 where it is not known.
	Clients int           `json:"clients"`
	Bake    time.Duration `json:"bake_ns"`
	// Versions are the software versions of which a scout is chosen.
	Versions []string `json:"versions,omitempty"`
	Approve  bool     `json:"approve,omitempty"`
}

// Plan returns who would be the canaries if what is pending was cut now.
func (c *Controller) Plan(name string) (Plan, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.observationNamed(name); o != nil {
		p := Plan{Key: name, Policy: o.state.Policy().Name, Observed: true, Steps: []PlanStep{}}
		if o.overlay != nil {
			p.Revision = digestOf(o.overlay).String()
			all := o.peopleOf()
			p.add(o.state.Policy(), &all)
		}
		return p, nil
	}
	k := c.keyNamed(name)
	if k == nil {
		return Plan{}, ErrNoPolicy
	}
	policy := k.state.Policy()
	p := Plan{Key: name, Policy: policy.Name, Steps: []PlanStep{}}
	o := k.group.CutOverlay()
	if o == nil {
		return p, nil
	}
	p.Revision = digestOf(o).String()
	was := k.candidate
	k.candidate = o.Candidate(p.Revision)
	all := k.peopleOf()
	k.candidate = was
	p.add(policy, &all)
	return p, nil
}

// add adds the steps of a policy for the clients that a revision affects.
func (p *Plan) add(policy *rollout.Policy, all *people) {
	p.Affected, p.Eligible = len(all.affected), len(all.eligible)
	p.Small = p.Affected < policy.Canaries.Small || len(policy.Steps) == 0
	p.Steps = schedule(policy, p.Small)
	for _, s := range rollout.ScoutsAmong(all.scouts(), policy.Scouts.Most) {
		p.Steps[0].Clients++
		if !slices.Contains(p.Steps[0].Versions, s.Version) {
			p.Steps[0].Versions = append(p.Steps[0].Versions, s.Version)
		}
	}
	for i := 1; i < len(p.Steps)-1; i++ {
		p.Steps[i].Clients = min(policy.Steps[i-1].Share.Of(p.Affected), p.Eligible)
	}
	p.Steps[len(p.Steps)-1].Clients = p.Affected
}
