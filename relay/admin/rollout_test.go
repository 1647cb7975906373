package admin

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"xdsrelay/relay/ops"
)

// TestActiveRollouts: the live page asks for the keys to which something happens, and gets them once: after
// that, only changes. A key and active exclude each other.
func TestActiveRollouts(t *testing.T) {
	cfg := testConfig()
	cfg.Tier = testTier()
	var asked atomic.Int32
	cfg.Tier.Rollout.Active = func(context.Context) ops.Rollout {
		asked.Add(1)
		return ops.Rollout{Node: "n1", Keys: []ops.RolloutKey{{Key: "shop"}}, Idle: 3}
	}
	ask := serve(t, cfg)
	first := ask("GET", "/api/v1/rollout?active=true")
	if first.code != 200 || !strings.Contains(first.text, `"key":"shop"`) || !strings.Contains(first.text, `"idle":3`) {
		t.Errorf("%d %s", first.code, first.text)
	}
	if res := ask("GET", "/api/v1/rollout?active=true", "If-None-Match", first.header.Get("ETag")); res.code != 304 || res.text != "" {
		t.Errorf("what is known was answered %d %s", res.code, res.text)
	}
	for path, code := range map[string]int{"?active=false": 200, "": 200, "?active=yes": 400, "?active=true&key=a": 400} {
		if res := ask("GET", "/api/v1/rollout"+path); res.code != code {
			t.Errorf("%s: %d %s", path, res.code, res.text)
		}
	}
	v := &watcher{cfg: cfg}
	before := asked.Load()
	v.rollouts(t.Context())
	v.glance.at = v.glance.at.Add(lookPause) // however slow this machine is
	if v.rollouts(t.Context()); asked.Load() != before+1 {
		t.Errorf("two pages have asked the tier %d times", asked.Load()-before)
	}
	v.glance.at = v.glance.at.Add(-3 * lookPause)
	if v.rollouts(t.Context()); asked.Load() != before+2 {
		t.Errorf("an old answer was given again")
	}
}
