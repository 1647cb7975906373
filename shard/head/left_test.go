package head

import (
	"testing"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// TestClientsLeave: once the last client that asked the owner of a key for a type has left, the owner
// drops its content, and new clients find none before the control plane answers. Neither is newer than
// the tier head, which other nodes compare their content with: it stays until there is an answer.
func TestClientsLeave(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		k := b.node("a", Config{}).key("k")
		k.own()
		other := k.Table(resource.TypeOf("type.googleapis.com/envoy.config.listener.v3.Listener"))
		var stays cache.Watcher
		other.Replace(&stays, true, nil) // so that the key stays in use
		k.apply("1")
		b.wait(time.Minute)
		s := b.open()
		head := stored(t, s, "k").heads[clusters.URL]
		if !head.holds(k.edition()) {
			t.Fatalf("Redis has %+v, expected the head of %+v", head, k.edition())
		}
		same := func(when string) {
			t.Helper()
			b.wait(time.Minute)
			if now := stored(t, s, "k").heads[clusters.URL]; now != head {
				t.Errorf("%s Redis has %+v, expected %+v", when, now, head)
			}
		}
		k.Table(clusters).Leave(&k.watcher)
		b.wait(time.Minute)
		if e := k.edition(); e.Resources != 0 {
			t.Fatalf("%d resources are left, expected none", e.Resources)
		}
		k.feed.Apply(cache.Update{Type: other.Type, Full: true}) // the owner looks for heads to write
		same("when the clients have left,")
		k.Table(clusters).Replace(&k.watcher, true, nil)
		k.feed.Apply(cache.Update{Type: other.Type, Full: true, Version: "2"})
		same("when others ask,")
		k.apply("2")
		b.wait(time.Minute)
		if now := stored(t, s, "k").heads[clusters.URL]; now.Generation != head.Generation+1 || !now.holds(k.edition()) {
			t.Errorf("after the next answer Redis has %+v, expected the head of %+v", now, k.edition())
		}
	})
}
