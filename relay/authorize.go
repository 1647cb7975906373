package relay

import (
	"xdsrelay/fanout/gate"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
)

// buildGate compiles the rules, and makes what lets clients in by them.
func (n *Node) buildGate() error {
	rules, err := aggregation.Compile(n.cfg.Aggregation.Rules, aggregation.Options{UserAgentVersion: n.version})
	if err != nil {
		return err
	}
	policy, err := authorize.Compile(n.cfg.Authorize)
	if err != nil {
		return err
	}
	n.rules.Store(rules)
	n.policy.Store(policy)
	n.gate, err = gate.New(gate.Config{
		Policy: n.policy.Load, KeepUntrusted: n.cfg.Recheck.KeepUntrusted, Meter: n.metrics.Meter(), Logger: n.log,
	})
	return err
}
