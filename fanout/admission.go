package fanout

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/fanout/gate"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
)

// admission is what is kept of how a client was let in, so that it can be asked again
// whether it may stay. It is written with the first request, but for what says
// otherwise.
type admission struct {
	policy *authorize.Policy // that let it in
	// claim is, encoded, what the policy reads of the Node beyond what else is kept
	// of that.
	claim string

	// Guarded by the Server's mu.
	admitted bool
	due      stamp // when to ask again; 0 for never
}

// letIn lets a client in that says it is node, finds its key, and notes in c what it
// takes to ask again; set are the fields of node, bits by number, that are kept in any
// case. No later request says who the client is (B1).
func (s *Server) letIn(c *caller, node *corev3.Node, by gate.Client, set uint64) (aggregation.Result, error) {
	if err := aggregation.Vet(node); err != nil {
		return aggregation.Result{}, err
	}
	policy := s.cfg.Gate.Policy()
	if err := s.cfg.Gate.Admit(policy, node, by); err != nil {
		return aggregation.Result{}, err
	}
	res, err := s.cfg.Rules().Resolve(node, by.Peer)
	if err != nil {
		return res, err
	}
	c.policy, c.claim = policy, policy.Reads().Extract(node, set)
	s.askAgain(c, policy, by, time.Now())
	return res, nil
}
