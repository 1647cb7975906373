package rollout

// Policies are the policies of a configuration, by the aggregation rules that use them. They never change
// and are safe for concurrent use. The zero value and nil have none.
type Policies struct {
	// Limits are the budget and the breaker.
	Limits Limits

	byRule map[string]compiled
}

type compiled struct {
	policy   *Policy
	selector *Selector
}

// Use makes a rule use a policy with compiled expressions, before the policies are in use. A policy with the
// mode off counts as none.
func (p *Policies) Use(rule string, policy *Policy, selector *Selector) {
	if !policy.Mode.Decides() {
		return
	}
	if p.byRule == nil {
		p.byRule = make(map[string]compiled)
	}
	p.byRule[rule] = compiled{policy, selector}
}

// Policy returns the policy of the clients of an aggregation rule, by the name in
// [aggregation.Result.Rule]; nil if rollouts are off for them. It must not be changed.
func (p *Policies) Policy(rule string) *Policy {
	if p == nil {
		return nil
	}
	return p.byRule[rule].policy
}

// Selector returns the compiled expressions of [Policies.Policy]; nil without a policy.
func (p *Policies) Selector(rule string) *Selector {
	if p == nil {
		return nil
	}
	return p.byRule[rule].selector
}

// Len returns how many rules have a policy.
func (p *Policies) Len() int {
	if p == nil {
		return 0
	}
	return len(p.byRule)
}
