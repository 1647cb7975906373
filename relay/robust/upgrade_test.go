package robust

import "testing"

// TestUpgrade upgrades a tier from the program of the previous version node by node, rolls it back and
// upgrades it again. Clients of both versions' nodes lose nothing, whatever keeps the last known good
// state.
func TestUpgrade(t *testing.T) {
	if *upgradeFrom == "" {
		t.Skip("make upgrade-test runs it")
	}
	next := build(t)
	for _, cfg := range []Config{
		{Seed: 1, Nodes: 3, Clients: 96, Keys: 6, Size: 8, Tier: true, Store: "redis", Guard: true},
		{Seed: 2, Nodes: 3, Clients: 96, Keys: 6, Size: 8, Tier: true, Store: "directory", SotW: true},
	} {
		t.Run(title(cfg), func(t *testing.T) {
			cfg.Binary = *upgradeFrom
			w := start(t, cfg)
			for _, binary := range []string{next, *upgradeFrom, next} {
				w.Upgrade(binary)
			}
			w.Stop()
			if len(w.found) > 0 {
				t.Error(w.explain())
			}
		})
	}
}
