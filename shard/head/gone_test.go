package head

import (
	"testing"
	"time"
)

// TestFlushedBeforeTheOriginSpeaks: K12: what Redis loses of the nodes before is written again by
// a new owner whose own origin has not spoken yet, as far as it knows of it: from its claim, or
// from before Redis was emptied. Else the next owner would find nothing that is newer than what
// it has itself, and take its own content for the newest.
func TestFlushedBeforeTheOriginSpeaks(t *testing.T) {
	for name, claims := range map[string]bool{"after the claim": true, "before the claim": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				cfg := Config{Wait: never}
				before, next := b.node("a", cfg).key("k"), b.node("b", cfg).key("k")
				stop := before.own()
				before.apply("1")
				next.apply("1")
				b.wait(time.Minute)
				before.apply("2")
				b.wait(time.Minute)
				s := b.open()
				head := stored(t, s, "k").heads[clusters.URL]
				stop()
				if claims {
					next.own()
					b.wait(time.Second)
				}
				b.Flush()
				if !claims {
					next.own()
				}
				b.wait(longestRound)
				if now := stored(t, s, "k").heads[clusters.URL]; !now.same(head) {
					t.Errorf("Redis has %+v, expected %+v", now, head)
				}
				last := b.node("c", cfg).key("k")
				last.apply("1")
				b.wait(longestRound)
				if !next.edition().Behind || !last.edition().Behind {
					t.Errorf("behind the tier head: the owner %t, a node that comes later %t", next.edition().Behind, last.edition().Behind)
				}
				next.apply("2") // its origin has spoken
				b.wait(time.Second)
				if now := stored(t, s, "k").heads[clusters.URL]; now.Epoch <= head.Epoch || now.Generation != head.Generation || !now.holds(next.edition()) {
					t.Errorf("then Redis has %+v, after %+v", now, head)
				}
				b.wait(longestRound)
				b.Flush()
				b.wait(longestRound)
				if now := stored(t, s, "k").heads[clusters.URL]; now.Epoch <= head.Epoch || !now.holds(next.edition()) {
					t.Errorf("emptied again, Redis has %+v", now)
				}
			})
		})
	}
}
