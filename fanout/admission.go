package fanout

import (
	"math"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/fanout/authz"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
)

// admission is what is kept of the admission of a client, so that the client can be authorized
// again.
type admission struct {
	// by is how it was authorized; nil if every client was allowed. It is written with the first
	// request.
	by *allowed
	// due is when to authorize it again, 0 before it was admitted; guarded by the Server's mu.
	due stamp
}

// allowed has the rules that allowed a client. It never changes.
type allowed struct {
	policy *authorize.Policy
	// claim has the encoded fields of the Node that the rules read and that are not kept elsewhere.
	claim string
}

// reads returns the fields in claim.
func (a *allowed) reads() aggregation.Fields {
	if a == nil {
		return aggregation.Fields{}
	}
	return a.policy.Reads()
}

// notDue means that only a change of trust or rules makes a recheck due.
const notDue stamp = math.MaxInt64

// letIn authorizes a client that claims to be node, computes its key, and keeps in c what a recheck
// needs. set are the fields of node, as bits by number, that are kept elsewhere. Later requests
// cannot change the Node (B1).
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
	s.scheduleRecheck(c, policy, by, before, time.Now())
	return res, nil
}
