package relay

import (
	"xdsrelay/relay/config"
	"xdsrelay/relay/rollout"
)

// rolloutPolicy returns the policy by which changes are released to the clients of an aggregation rule, by
// the name in [aggregation.Result.Rule]; nil if all changes pass at once. A rollout in progress keeps the
// policy that it started with.
func (n *Node) rolloutPolicy(rule string) *rollout.Policy { return n.policies.Load().Policy(rule) }

// rolloutSelector returns the compiled expressions of [Node.rolloutPolicy]; nil without a policy.
func (n *Node) rolloutSelector(rule string) *rollout.Selector {
	return n.policies.Load().Selector(rule)
}

// buildPolicies compiles the policies of rollouts, and makes what sends their events.
func (n *Node) buildPolicies() error {
	n.buildRolloutEvents()
	do, err := n.changePolicies(n.cfg)
	if err != nil {
		return err
	}
	do()
	n.add(part{stop: func() {
		if systems := n.hooks.Load(); systems != nil {
			systems.Close()
		}
	}})
	return nil
}

// changePolicies takes new policies, budgets and breakers.
func (n *Node) changePolicies(cfg *config.Config) (func(), error) {
	all, err := cfg.RolloutPolicies()
	if err != nil {
		return nil, err
	}
	systems, err := n.newHooks(cfg)
	if err != nil {
		return nil, err
	}
	return func() {
		n.hookTarget.Store(targetOf(cfg, systems))
		if old := n.hooks.Swap(systems); old != nil {
			old.Close()
		}
		n.policies.Store(all)
		if c := n.control.Load(); c != nil {
			c.RulesChanged()
		}
	}, nil
}
