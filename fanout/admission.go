package fanout

import (
	"math"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/fanout/authz"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
)

// admission is what is kept of how a client was let in, so that it can be asked again
// whether it may stay.
type admission struct {
	// by is what let it in; nil if everybody was. It is written with the first request.
	by *allowed
	// due is when to ask again, 0 before it was let in; guarded by the Server's mu.
	due stamp
}

// allowed is by which rules a client was let in. It never changes.
type allowed struct {
	policy *authorize.Policy
	// claim is, encoded, what they read of the Node beyond what else is kept of that.
	claim string
}

// reads is what is known of the Node beyond what else is kept of it.
func (a *allowed) reads() aggregation.Fields {
	if a == nil {
		return aggregation.Fields{}
	}
	return a.policy.Reads()
}

// notDue says that nothing but a change is a reason to ask again.
const notDue stamp = math.MaxInt64

// letIn lets a client in that says it is node, finds its key, and notes in c what it
// takes to ask again; set are the fields of node, bits by number, that are kept in any
// case. No later request says who the client is (B1).
func (s *Server) letIn(c *caller, node *corev3.Node, by authz.Client, set uint64) (aggregation.Result, error) {
	if err := aggregation.Vet(node); err != nil {
		return aggregation.Result{}, err
	}
	before := s.rechecks.Load()
	policy := s.cfg.Gate.Policy()
	if err := s.cfg.Gate.Admit(policy, node, by); err != nil {
		return aggregation.Result{}, err
	}
	res, err := s.cfg.Rules().Resolve(node, by.Peer)
	if err != nil {
		return res, err
	}
	if !policy.Open() {
		c.by = &allowed{policy, policy.Reads().Extract(node, set)}
	}
	s.askAgain(c, policy, by, before, time.Now())
	return res, nil
}
