package head

import (
	"fmt"
	"testing"
	"time"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// TestForged: whatever else writes a head of a key that a node owns, the node replaces
// it, and the nodes that follow the key do not stay behind what nobody has (K12).
func TestForged(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	for key, forge := range map[string]func(*Head){
		"same epoch":                      func(h *Head) { h.Generation += 5 },
		"same epoch, the last generation": func(h *Head) { h.Generation = maxNumber - 1 },
		"an epoch that nobody has made":   func(h *Head) { h.Epoch += 5 },
		"the last epoch":                  func(h *Head) { h.Epoch, h.Generation = maxNumber-1, maxNumber-1 },
	} {
		t.Run(key, func(t *testing.T) {
			a, b := newNode(t, "a", s, soon, time.Millisecond).key(key), newNode(t, "b", s, soon, time.Millisecond).key(key)
			a.own()
			a.apply("1")
			b.apply("1")
			forged := storedSoon(s, a)
			b.sees(a)
			forge(&forged)
			forged.Digest, forged.Owner = resource.Digest{1}, "stranger"
			server.Do("HSET", name(s, key), typeField+clusters.URL, forged.encode())
			storedSoon(s, a)
			xdstest.Eventually(t, "nobody to be behind", func() bool {
				wrong, err := b.Check(t.Context())
				return b.head().holds(a.edition()) && !b.edition().Behind && fmt.Sprint(wrong, err) == "[] <nil>"
			})
			if wrong, err := a.Check(t.Context()); len(wrong) > 0 || err != nil {
				t.Errorf("the owner complains: %q, %v", wrong, err)
			}
			a.apply("2")
			b.sees(a)
		})
	}
}
