package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/rollout"
)

// rollouts loads a configuration with an upstream and a store.
func rollouts(t *testing.T, file string) (*Config, *rollout.Policies) {
	t.Helper()
	cfg, err := Load(Input{File: "x.yaml", Data: []byte("upstream: {addresses: ['cp:1']}\nlast_known_good: {store: directory, directory: x}\n" + file)})
	if err != nil {
		t.Fatal(err)
	}
	all, err := cfg.RolloutPolicies()
	if err != nil {
		t.Fatal(err)
	}
	return cfg, all
}

// TestRolloutPolicies: each rule has the policy that it names, by its own name or its position. Presets
// need no entry, and an entry with the name of one replaces it. What a policy does not set is that of standard.
func TestRolloutPolicies(t *testing.T) {
	cfg, all := rollouts(t, `
aggregation:
  rules:
    - {name: web, match: node.cluster == "web", key: node.cluster, rollout: mine}
    - {match: node.cluster == "db", key: node.cluster, rollout: careful}
    - {name: preset, match: node.cluster == "a", key: node.cluster, rollout: standard}
    - {name: "off", match: node.cluster == "b", key: node.cluster, rollout: none}
    - {name: rest, key: node.cluster}
rollout:
  budget: [5%, 100%]
  breaker: {failures: 0}
  policies:
    - name: mine
      mode: manual
      types: [CDS, Listener, SDS]
      settle: {quiet: 1s}
      scouts: {by: node.user_agent_name, most: 3}
      steps: [{share: 12.5%}, {share: 50%, bake: 1m, approve: true}]
      final_bake: 1h
      canaries: {match: node.cluster != "x", spread: "", never: has(node.metadata.pinned), small: 5}
      fail_if: {nacks: 2, lost: {clients: 0}, errors: {above_control: 2%}}
      checks:
        - {name: slo, prometheus: 'https://prom:9090', query: up, fail: '< 1', token_file: testdata/schema.yaml}
        - {name: smoke, webhook: 'http://ci/hook', allow_plaintext: true, timeout: 1m, every: 2m, no_data: fail}
      on_fail: hold
      newer: wait
      upstream: {within: 500ms, late_nack: false}
      longest: 3h
    - {name: none, mode: off}
    - {name: careful, mode: manual}
`)
	want := &rollout.Policy{
		Name: "mine", Mode: rollout.Manual, Types: []string{"CDS", "Listener", "SDS"},
		Settle: rollout.Settle{Quiet: time.Second, Max: 2 * time.Second}, Scouts: rollout.ScoutsOf{By: "node.user_agent_name", Most: 3},
		Steps: []rollout.Step{{Share: 0.125, Bake: 5 * time.Minute}, {Share: 0.5, Bake: time.Minute, Approve: true}}, Final: time.Hour,
		Canaries: rollout.Canaries{Match: `node.cluster != "x"`, Never: "has(node.metadata.pinned)", Small: 5},
		FailIf:   rollout.FailIf{NACKs: 2, Unanswered: rollout.Unanswered{Clients: 1, Within: 10 * time.Second}, Lost: rollout.Lost{TimesControl: 3}, Errors: rollout.Errors{AboveControl: 0.02, Requests: 500}},
		Checks: []rollout.Check{
			{Name: "slo", Prometheus: "https://prom:9090", Query: "up", Fail: "< 1", TokenFile: "testdata/schema.yaml", Timeout: 10 * time.Second, Every: 30 * time.Second, NoData: rollout.WaitForData},
			{Name: "smoke", Webhook: "http://ci/hook", AllowPlaintext: true, Timeout: time.Minute, Every: 2 * time.Minute, NoData: rollout.FailWithoutData},
		},
		OnFail: rollout.HoldThere, Newer: rollout.AfterThis, Longest: 3 * time.Hour, Upstream: rollout.Upstream{Answer: rollout.AfterScouts, Within: 500 * time.Millisecond},
	}
	if got := all.Policy("web"); !reflect.DeepEqual(got, want) {
		t.Errorf("mine is\n%+v, expected\n%+v", got, want)
	}
	if got := cfg.Rollout.HookTokens(); !cfg.Rollout.HasHooks() || !slices.Equal(got, []string{"testdata/schema.yaml"}) {
		t.Errorf("token files %q", got)
	}
	if p := all.Policy("web"); !p.Gates(resource.ListenerURL) || !p.Gates(resource.SecretURL) || p.Gates(resource.RouteURL) {
		t.Error("it gates other types")
	}
	if p := all.Policy("#2"); p == nil || p.Mode != rollout.Manual || len(p.Steps) != 3 {
		t.Errorf("careful, replaced, is %+v", p)
	}
	// A preset has its own values, but for what no key of the configuration sets.
	standard := rollout.Preset(rollout.Standard)
	if got := all.Policy("preset"); !reflect.DeepEqual(got, standard) {
		t.Errorf("standard is\n%+v, expected\n%+v", got, standard)
	}
	if all.Policy("off") != nil || all.Policy("rest") != nil || all.Policy("") != nil || all.Len() != 3 {
		t.Errorf("%d rules have a policy", all.Len())
	}
	if want := (rollout.Limits{Shares: []rollout.Share{0.05, 1}, Within: 10 * time.Minute}); !reflect.DeepEqual(all.Limits, want) {
		t.Errorf("limits %+v, expected %+v", all.Limits, want)
	}
	traits, err := all.Selector("web").Of(&corev3.Node{Id: "a", Cluster: "web", UserAgentName: "envoy"}, aggregation.Peer{})
	if err != nil || traits != (rollout.Traits{Match: true, Version: "envoy"}) {
		t.Errorf("%+v, %v", traits, err)
	}
	// The names of rules are those of the rules that clients match.
	rules, err := aggregation.Compile(cfg.Aggregation.Rules, aggregation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for cluster, want := range map[string]string{"web": "mine", "db": "careful", "a": "standard", "other": ""} {
		res, err := rules.Resolve(&corev3.Node{Id: "a", Cluster: cluster}, aggregation.Peer{})
		name := ""
		if p := all.Policy(res.Rule); p != nil {
			name = p.Name
		}
		if err != nil || name != want || res.Rollout != want {
			t.Errorf("a client of %s has the policy %q, expected %q: %v", cluster, name, want, err)
		}
	}
}

// TestRolloutDefaults: without a section there is no policy, and the limits are those of the design. A policy
// with a name alone is standard.
func TestRolloutDefaults(t *testing.T) {
	_, all := rollouts(t, "aggregation: {rules: [{key: node.cluster}]}\n")
	if all.Len() != 0 || !reflect.DeepEqual(all.Limits, rollout.DefaultLimits()) {
		t.Errorf("%+v", all)
	}
	_, all = rollouts(t, "aggregation: {rules: [{key: node.cluster, rollout: a}]}\nrollout: {policies: [{name: a}]}\n")
	own := *all.Policy("#1")
	own.Name = rollout.Standard
	_, all = rollouts(t, "aggregation: {rules: [{key: node.cluster, rollout: standard}]}\n")
	if preset := all.Policy("#1"); !reflect.DeepEqual(&own, preset) {
		t.Errorf("%+v, expected %+v", own, preset)
	}
	for _, p := range rollout.Presets() {
		c := presetPolicy(p.Name)
		if problems, warnings := c.policy().Validate(&rollout.World{LastGood: true, Agrees: true}); len(problems)+len(warnings) > 0 {
			t.Errorf("%s: %v, %v", p.Name, problems, warnings)
		}
	}
}

// TestRolloutMistakesInCode: a configuration that is made in code, and not validated, has no policies.
func TestRolloutMistakesInCode(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`aggregation.rules[0].rollout: no policy "x"`: func(c *Config) { c.Aggregation.Rules[0].Rollout = "x" },
		"rollout.budget[0]: expected a percentage":    func(c *Config) { c.Rollout.Budget = []string{"1"} },
		`rollout policy "a": canaries.match: line 1`: func(c *Config) {
			c.Aggregation.Rules[0].Rollout = "a"
			c.Rollout.Policies = []RolloutPolicy{{Name: "a", Canaries: RolloutCanaries{Match: "nod"}}}
		},
	} {
		c := Default()
		change(c)
		if _, err := c.RolloutPolicies(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}

// TestRolloutWarnings: what operators may not expect of the policies that rules use.
func TestRolloutWarnings(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		want       []string
	}{
		{"none", "rollout: {policies: [{name: a, types: [SDS]}]}", nil},
		{"a preset", "aggregation: {rules: [{key: node.cluster, rollout: standard}]}", nil},
		{"secrets", "aggregation: {rules: [{key: node.cluster, rollout: a}, {name: b, key: node.id, rollout: a}]}\nrollout: {policies: [{name: a, types: [CDS, SDS]}]}",
			[]string{"rollout.policies[0].types[1]: is SDS: "}},
		{"off", "aggregation: {rules: [{key: node.cluster, rollout: a}]}\nrollout: {policies: [{name: a, mode: off, types: [SDS]}]}", nil},
		{"no rejection fails", "aggregation: {rules: [{key: node.cluster, rollout: a}]}\nrollout: {policies: [{name: a, fail_if: {nacks: 0}}]}",
			[]string{"rollout.policies[0].fail_if.nacks: is 0: "}},
		{"private types", "aggregation: {private_types: [Cluster], rules: [{key: node.cluster, rollout: quick}]}",
			[]string{"aggregation.rules[0].rollout: the preset quick: types[3]: is CDS, which is in aggregation.private_types; "}},
	} {
		cfg, _ := rollouts(t, tc.file)
		got := cfg.Warnings()
		if !slices.EqualFunc(got, tc.want, strings.HasPrefix) {
			t.Errorf("%s: %q, expected %q", tc.name, got, tc.want)
		}
	}
}

// TestRolloutIsLive: policies, and the policy of a rule, take effect while a node runs.
func TestRolloutIsLive(t *testing.T) {
	next := Default()
	next.Aggregation.Rules = []aggregation.Rule{{Name: "default", Key: "node.cluster", Rollout: "quick"}}
	next.Rollout.Budget = []string{"2%"}
	next.Rollout.Breaker.Failures = 1
	next.Rollout.Policies = []RolloutPolicy{{Name: "a"}}
	next.Rollout.TLS.CAFile = "ca.pem"
	live, restart := Changes(Default(), next)
	if want := []string{"aggregation.rules", "rollout.budget", "rollout.breaker.failures", "rollout.tls.ca_file", "rollout.policies"}; !slices.Equal(live, want) || len(restart) > 0 {
		t.Errorf("live: %v, restart: %v, expected %v", live, restart, want)
	}
}

// TestManyPolicies: a file with very many policies and rules is refused soon.
func TestManyPolicies(t *testing.T) {
	var b strings.Builder
	b.WriteString("upstream: {addresses: ['cp:1']}\nrollout: {policies: [" + strings.Repeat("{name: aaaaaaaaaaaaaaaaaaaa}, ", 101) + "]}\n")
	if _, err := Load(Input{File: "x.yaml", Data: []byte(b.String())}); err == nil || !strings.Contains(err.Error(), "has 101 policies, expected at most 100") {
		t.Errorf("%v", err)
	}
}
