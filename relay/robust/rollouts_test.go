package robust

import "testing"

// TestRollouts: whatever fails while canaries have a revision, or while one is refused, no further client gets
// it but in the place of one that has lost its stream, and nodes without a fault end no stream.
func TestRollouts(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of real processes")
	}
	binary := build(t)
	for name, cases := range map[string][]rolloutCase{
		"canaries have a revision": {{fault: "kill a node"}, {fault: "pause a node"}, {fault: "flush Redis"}, {fault: "cut a node from Redis"}, {fault: "cut a node from its peers"}},
		"a revision is refused":    {{fault: "kill a node", bad: true}, {fault: "pause a node", bad: true}, {fault: "flush Redis", bad: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, Config{Seed: 1, Nodes: 3, Clients: 48, Keys: 1, Size: 6, Tier: true, Store: "redis", Rollouts: true, Binary: binary})
			for _, c := range cases {
				for _, wrong := range w.Rollout(w.keys[0], c) {
					t.Errorf("%s: %s", c.fault, wrong)
				}
			}
			for _, n := range w.nodes {
				w.checkLog(n)
			}
			if len(w.found) > 0 {
				t.Error(w.explain())
			}
		})
	}
}
