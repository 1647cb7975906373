package head

import (
	"context"
	"testing"
	"time"
)

// TestAwaitRead: the heads of a key are known after a wait for them, also where another key was read just before.
// The wait is short where Redis does not answer, and there is none for a key that this node does not have, or that
// was read.
func TestAwaitRead(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		owner := b.node("a", Config{})
		first, second := owner.key("first"), owner.key("second")
		for _, k := range []*keyed{first, second} {
			k.own()
			k.apply("1")
		}
		b.wait(2 * time.Minute)

		n := b.node("b", Config{})
		waits := func(ctx context.Context, key string) time.Duration {
			began := time.Now()
			n.AwaitRead(ctx, key)
			return time.Since(began)
		}
		if took := waits(t.Context(), "second"); took > 0 {
			t.Errorf("the node waits for a key that it does not have, for %s", took)
		}
		n.key("first")
		b.wait(batchDelay / 2)
		other := n.key("second")
		if waits(t.Context(), "second"); other.head().Generation == 0 {
			t.Error("the heads of a key are not known when they were awaited")
		}
		if took := waits(t.Context(), "second"); took > 0 {
			t.Errorf("the node waits for a key that was read, for %s", took)
		}

		b.Pause(true)
		n.key("third")
		ended, end := context.WithCancel(t.Context())
		end()
		if took := waits(ended, "third"); took > 0 {
			t.Errorf("the node waits for %s, expected not at all with a context that has ended", took)
		}
		if took := waits(t.Context(), "third"); took != readWait {
			t.Errorf("the node waits for %s while Redis does not answer, expected %s", took, readWait)
		}
		b.wait(time.Minute)
		if took := waits(t.Context(), "third"); took > 0 {
			t.Errorf("the node waits for a key that could not be read, for %s", took)
		}
		b.Pause(false)
	})
}
