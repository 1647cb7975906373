package relay_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// TestTwoTiersOfOnePrefix: tiers that share a Redis and a prefix say so, with what to do:
// those with different tokens, and those without, which take each other for one tier. With
// prefixes of their own they say nothing.
func TestTwoTiersOfOnePrefix(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		tokens   bool
		prefixes [2]string
		want     string
	}{
		{"two tokens", true, [2]string{"xdsrelay", "xdsrelay"}, "sees nodes of another tier in Redis under its own prefix"},
		{"no token", false, [2]string{"xdsrelay", "xdsrelay"}, "has a config mismatch with node"},
		{"two prefixes", true, [2]string{"one", "two"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t, redistest.Config{})
			var nodes []running
			for i, prefix := range test.prefixes {
				origin := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
				cfg := testConfig()
				cfg.Node.Name, cfg.Upstream.Addresses = string(rune('a'+i)), []string{origin.Addr()}
				cfg.Tier.Redis.URL, cfg.Tier.Redis.Prefix, cfg.Tier.Peer.Address = redis.URL(), prefix, "127.0.0.1:0"
				if test.tokens {
					cfg.Tier.Peer.TokenFile = filepath.Join(t.TempDir(), "token")
					if err := os.WriteFile(cfg.Tier.Peer.TokenFile, []byte(strings.Repeat(cfg.Node.Name, 32)), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				nodes = append(nodes, start(t, cfg))
			}
			for _, n := range nodes {
				says := func() string { _, text := n.get(t, "/readyz?verbose"); return text }
				if test.want == "" {
					_, members := n.get(t, "/tier/nodes")
					if text := says() + members; strings.Contains(text, "prefix") || strings.Contains(text, "differ") {
						t.Errorf("a tier with a prefix of its own says\n%s", text)
					}
					continue
				}
				xdstest.Eventually(t, "the other tier to be reported", func() bool {
					text := says()
					return strings.Contains(text, test.want) && strings.Contains(text, "set another tier.redis.prefix")
				})
			}
		})
	}
}
