package relay

import (
	"xdsrelay/fanout/authz"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/config"
	"xdsrelay/relay/logs"
)

// buildGate compiles the rules, and makes what lets clients in by them.
func (n *Node) buildGate() error {
	rules, policy, err := n.compileRules(n.cfg)
	if err != nil {
		return err
	}
	n.rules.Store(rules)
	n.policy.Store(policy)
	n.gate, err = authz.New(authz.Config{
		Policy: n.policy.Load, KeepUntrusted: n.cfg.Authorization.KeepUntrusted, Meter: n.metrics.Meter(), Logger: n.part(logs.Security),
	})
	return err
}

// compileRules compiles those that give clients their keys, and those that let them in.
func (n *Node) compileRules(cfg *config.Config) (*aggregation.Rules, *authorize.Policy, error) {
	rules, err := aggregation.Compile(cfg.Aggregation.Rules, aggregation.Options{UserAgentVersion: n.version})
	if err != nil {
		return nil, nil, err
	}
	policy, err := authorize.Compile(cfg.Authorization.Policy())
	return rules, policy, err
}
