package terms

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/config"
)

var salt = bytes.Repeat([]byte{7}, LeastSalt)

// TestTerms holds in which part a change of the configuration shows, and in none where
// nodes may differ (K11).
func TestTerms(t *testing.T) {
	marks := []string{"k1:aa", "k0:bb"}
	with := func(change func(*config.Config)) (*config.Config, map[string]string) {
		cfg := config.Default()
		cfg.Upstream.Addresses = []string{"cp-0:18000", "cp-1:18000"}
		cfg.LastKnownGood.Store = config.StoreRedis
		cfg.Upstreams = append(cfg.AllUpstreams(), config.NamedUpstream{Name: "sds", Types: []string{"Secret"}, Upstream: config.DefaultUpstream()})
		change(cfg)
		return cfg, Of(cfg, marks).Sealed(salt)
	}
	_, usual := with(func(*config.Config) {})
	if len(usual) != len(Parts()) {
		t.Errorf("parts %v, expected %v", usual, Parts())
	}
	for name, tc := range map[string]struct {
		change func(*config.Config)
		want   []string
	}{
		"a rule":                  {func(c *config.Config) { c.Aggregation.Rules = []aggregation.Rule{{Key: "node.id"}} }, []string{"aggregation"}},
		"private types":           {func(c *config.Config) { c.Aggregation.PrivateTypes = []string{"Secret"} }, []string{"aggregation"}},
		"who is let in":           {func(c *config.Config) { c.Authorization.Rules = []authorize.Rule{{Match: "true"}} }, []string{"authorization"}},
		"another control plane":   {func(c *config.Config) { c.Upstreams[0].Addresses = []string{"other:1"} }, []string{"upstream.addresses"}},
		"another one for secrets": {func(c *config.Config) { c.Upstreams[1].Addresses = []string{"other:1"} }, []string{"upstream.addresses"}},
		"the order of addresses":  {func(c *config.Config) { c.Upstreams[0].Addresses = []string{"cp-1:18000", "cp-0:18000"} }, nil},
		"the variant":             {func(c *config.Config) { c.Upstreams[0].Variant = config.SotW }, []string{"upstream"}},
		"what comes from where":   {func(c *config.Config) { c.Upstreams[1].Types = []string{"Runtime"} }, []string{"upstream"}},
		"a directory":             {func(c *config.Config) { c.Upstreams[0].Addresses, c.Upstreams[0].Directory = nil, "/etc/xds" }, []string{"upstream", "upstream.addresses"}},
		"what may be removed":     {func(c *config.Config) { c.RemovalGuard.MaxPercent = 50 }, []string{"removal_guard"}},
		"no last good":            {func(c *config.Config) { c.LastKnownGood.Store = config.StoreNone }, []string{"last_known_good"}},
		"a policy":                {func(c *config.Config) { c.Rollout.Policies = []config.RolloutPolicy{{Name: "quick"}} }, []string{"rollout"}},
		"the policy of a rule": {func(c *config.Config) {
			c.Aggregation.Rules = []aggregation.Rule{{Name: "default", Key: "node.cluster", Rollout: "quick"}}
		}, []string{"aggregation"}},
		"the lease": {func(c *config.Config) { c.Tier.Lease += time.Second }, []string{"tier"}},
		"what is its own": {func(c *config.Config) {
			c.Node.Name, c.Listener.Address, c.Tier.Peer.Address, c.Limits.MaxStreams, c.Log.Level = "b", ":1", ":2", 7, config.LevelDebug
			c.LastKnownGood.EncryptionKeysFile, c.Upstream.TLS.CertFile, c.Cache.Linger = "elsewhere", "elsewhere", time.Hour
		}, nil},
	} {
		_, other := with(tc.change)
		var got []string
		for _, d := range Compare(map[string]map[string]string{"a": usual, "b": other}) {
			got = append(got, d.Parts...)
			if d.Node != "b" || d.From != "a" {
				t.Errorf("%s: %+v", name, d)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: they differ in %v, expected %v", name, got, tc.want)
		}
	}
	cfg, _ := with(func(*config.Config) {})
	if other := Of(cfg, []string{"k0:bb"}).Sealed(salt); len(Compare(map[string]map[string]string{"a": usual, "b": other})) != 1 {
		t.Error("other keys of last_good do not show")
	}
	cfg, own := with(func(c *config.Config) { c.Tier.OwnUpstreamAddresses, c.Upstream.Addresses = true, []string{"near:1"} })
	if _, told := own[partAddresses]; told || len(Compare(map[string]map[string]string{"a": usual, "b": own})) != 0 {
		t.Error("addresses are compared where a node may have its own")
	}
	if again := Of(cfg, marks).Sealed(bytes.Repeat([]byte{8}, LeastSalt)); again[partAggregation] == own[partAggregation] {
		t.Error("the salt makes no difference")
	}
}

// TestCompare holds who is told of: who differs from most, and of two the second.
func TestCompare(t *testing.T) {
	say := func(aggregation, origin string) map[string]string {
		all := map[string]string{}
		for part, text := range map[string]string{partAggregation: aggregation, partOrigin: origin} {
			if text != "" {
				all[part] = text
			}
		}
		return all
	}
	for _, tc := range []struct {
		name    string
		answers map[string]map[string]string
		want    []Difference
	}{
		{"nobody", nil, nil},
		{"alike", map[string]map[string]string{"a": say("x", "y"), "b": say("x", "y")}, nil},
		{"of two the second", map[string]map[string]string{"a": say("x", "y"), "b": say("z", "w")}, []Difference{{Node: "b", Parts: []string{partAggregation, partOrigin}, From: "a"}}},
		{"of three the first", map[string]map[string]string{"a": say("x", "y"), "b": say("z", "y"), "c": say("z", "y")}, []Difference{{Node: "a", Parts: []string{partAggregation}, From: "b"}}},
		{"each in another part", map[string]map[string]string{"a": say("x", "w"), "b": say("z", "y"), "c": say("z", "w")}, []Difference{
			{Node: "a", Parts: []string{partAggregation}, From: "b"}, {Node: "b", Parts: []string{partOrigin}, From: "a"},
		}},
		{"who does not tell", map[string]map[string]string{"a": say("", "y"), "b": say("z", "y"), "c": nil}, nil},
	} {
		if got := Compare(tc.answers); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, expected %+v", tc.name, got, tc.want)
		}
	}
}
