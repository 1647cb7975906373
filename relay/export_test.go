package relay

import (
	"time"

	"xdsrelay/relay/rollout"
	"xdsrelay/relay/telemetry"
)

// Instruments are the metrics of a node, for the page that lists them.
func (n *Node) Instruments() []telemetry.Instrument { return n.metrics.Instruments() }

// RolloutPolicy returns the policy of a rule, and its compiled expressions.
func (n *Node) RolloutPolicy(rule string) (*rollout.Policy, *rollout.Selector) {
	return n.rolloutPolicy(rule), n.rolloutSelector(rule)
}

// Slept is what the node does when it notices that it did not run for a while.
func (n *Node) Slept(began time.Time) { n.slept(began) }
