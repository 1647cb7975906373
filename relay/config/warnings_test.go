package config

import (
	"strings"
	"testing"
)

// TestWarnings: what a tier leaves open is named by its field, without the password of
// Redis, and a tier that leaves nothing open has no warning.
func TestWarnings(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Tier)
		want   []string
	}{
		{"no tier", func(t *Tier) { t.Redis.URL, t.Peer.Address = "", "" }, nil},
		{"on this machine", func(t *Tier) { t.Redis.URL, t.Peer.Address = "redis://127.0.0.1:6379", "127.0.0.1:1" }, nil},
		{"on this machine, without a token", func(t *Tier) { t.Redis.URL, t.Peer.Address, t.Peer.TokenFile = "unix:///run/redis", "127.0.0.1:1", "" }, []string{"tier.peer:"}},
		{"token alone", func(*Tier) {}, []string{"tier.peer.tls:", "tier.redis.url:", "tier.redis:"}},
		{"password in the URL", func(t *Tier) { t.Redis.URL = "redis://relay:hunter2@redis:6379" }, []string{"tier.peer.tls:", "tier.redis.url:"}},
		{"TLS to peers", func(t *Tier) { t.Peer.TLS.CertFile = "c" }, []string{"tier.redis.url:", "tier.redis:"}},
		{"Workload API to peers", func(t *Tier) { t.Peer.TLS.WorkloadAPI = "unix:///run/spire" }, []string{"tier.redis.url:", "tier.redis:"}},
		{"all of it", func(t *Tier) {
			t.Peer.TLS.CertFile, t.Redis.URL, t.Redis.PasswordFile = "c", "rediss://redis:6379", "p"
		}, nil},
	} {
		c := Default()
		c.Tier.Redis.URL, c.Tier.Peer.Address, c.Tier.Peer.TokenFile = "redis://redis:6379", ":18100", "token"
		tc.change(&c.Tier)
		got := c.Warnings()
		for i, w := range got {
			if strings.Contains(w, "hunter2") {
				t.Errorf("%s: %s", tc.name, w)
			}
			if i >= len(tc.want) || !strings.HasPrefix(w, tc.want[i]+" ") {
				t.Errorf("%s: warning %d is %q, expected those of %q", tc.name, i, w, tc.want)
			}
		}
		if len(got) != len(tc.want) {
			t.Errorf("%s: %d warnings, expected %d", tc.name, len(got), len(tc.want))
		}
	}
}
