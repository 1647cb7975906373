package head

import (
	"testing"
	"time"
)

// TestFlushedBeforeTheOriginSpeaks: K12: if Redis loses the heads of earlier owners, a new owner
// whose own control plane has not answered yet writes them again, as far as it knows them: from its
// claim, or from before Redis was emptied. Otherwise the next owner would find nothing newer than
// its own content, and take that for the newest.
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
				if !next.edition().Standing.Behind() || !last.edition().Standing.Behind() {
					t.Errorf("behind the tier head: the owner %t, a node that comes later %t", next.edition().Standing.Behind(), last.edition().Standing.Behind())
				}
				next.apply("2") // its control plane has answered
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

// TestFlushedBeforeAnIdleNodeOwns: a node that did not follow a key becomes its owner after Redis has lost
// the tier head, while the control plane has not answered it yet. Its content may be old, so it writes
// no head of it: nodes with newer content would take that for a newer state (K12).
func TestFlushedBeforeAnIdleNodeOwns(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		wait := 5 * time.Second
		cfg := Config{Wait: wait}
		current := b.node("a", cfg).key("k")
		stop := current.own()
		current.apply("2")
		b.wait(time.Minute)
		stop()
		b.Flush()
		idle := b.node("b", cfg).key("k")
		idle.apply("1")
		idle.own()
		b.wait(wait - time.Second)
		s := b.open()
		if now, there := stored(t, s, "k").heads[clusters.URL]; there || current.edition().Standing.Behind() {
			t.Errorf("before its control plane has answered, Redis has %+v, and the node with newer content is behind: %t", now, current.edition().Standing.Behind())
		}
		idle.apply("3")
		b.wait(time.Second)
		if now := stored(t, s, "k").heads[clusters.URL]; !now.holds(idle.edition()) || !current.edition().Standing.Behind() {
			t.Errorf("then Redis has %+v, expected the head of %+v; the other node is behind: %t", now, idle.edition(), current.edition().Standing.Behind())
		}
	})
}

// TestRewrites: Rewrites is called if the owner writes the heads again:
// because Redis has lost them, or after a day, before they expire.
func TestRewrites(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		var keys []string
		k := b.node("a", Config{Rewrites: func(key string) { keys = append(keys, key) }}).key("k")
		k.own()
		k.apply("1")
		b.wait(5 * time.Minute)
		heard := func(what string, want bool) {
			t.Helper()
			if (len(keys) > 0) != want || want && keys[0] != "k" {
				t.Errorf("%s: %q", what, keys)
			}
			keys = nil
		}
		keys = nil // of the claim
		b.wait(5 * time.Minute)
		heard("nothing was lost", false)
		b.Flush()
		b.wait(2 * longestRound)
		heard("after a flush", true)
		b.wait(20 * time.Hour)
		heard("within a day", false)
		b.wait(20 * time.Hour)
		heard("after a day", true)
	})
}
