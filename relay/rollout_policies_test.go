package relay_test

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/config"
	"xdsrelay/relay/rollout"
	"xdsrelay/relay/xdstest"
)

// TestRolloutPolicies: a node has the policies of its configuration by rule, and takes new ones while it runs.
// A policy with a mistake changes nothing.
func TestRolloutPolicies(t *testing.T) {
	o := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{o.Addr()}
	cfg.LastKnownGood.Store, cfg.LastKnownGood.Directory = config.StoreDirectory, t.TempDir()
	cfg.Aggregation.Rules = []aggregation.Rule{{Name: "web", Match: `node.cluster == "web"`, Key: "node.cluster", Rollout: "mine"}, {Key: "node.cluster"}}
	policy := config.DefaultRolloutPolicy()
	policy.Name, policy.Mode, policy.Canaries.Match = "mine", config.RolloutMode(rollout.Manual), `node.id != "a"`
	cfg.Rollout.Policies = []config.RolloutPolicy{policy}
	next := *cfg
	n := startWith(t, cfg, relay.Options{Source: relay.Source{Load: func() (*config.Config, error) {
		c := next
		return &c, nil
	}}})
	check := func(what string, rule string, want rollout.Mode) {
		t.Helper()
		p, s := n.RolloutPolicy(rule)
		if (p == nil) != (want == "") || (s == nil) != (p == nil) || p != nil && p.Mode != want {
			t.Errorf("%s: rule %s has %+v, expected %q", what, rule, p, want)
		}
	}
	check("at first", "web", rollout.Manual)
	check("at first", "#2", "")
	_, s := n.RolloutPolicy("web")
	if traits, err := s.Of(&corev3.Node{Id: "a"}, aggregation.Peer{}); err != nil || traits.IsEligible() {
		t.Errorf("%+v, %v", traits, err)
	}

	next.Aggregation.Rules = []aggregation.Rule{{Name: "web", Match: `node.cluster == "web"`, Key: "node.cluster"}, {Key: "node.cluster", Rollout: "quick"}}
	if _, err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	check("after a change", "web", "")
	check("after a change", "#2", rollout.Automatic)

	policy.Canaries.Match = "nod"
	next.Rollout.Policies, next.Aggregation.Rules = []config.RolloutPolicy{policy}, []aggregation.Rule{{Key: "node.cluster", Rollout: "mine"}}
	if _, err := n.Reload(); err == nil {
		t.Error("a mistake is accepted")
	}
	check("after a mistake", "#2", rollout.Automatic)
}
