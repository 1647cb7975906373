package cache

import (
	"sync/atomic"
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

// TestHoldEndsIntoRollout: when the hold of the removal guard ends, a rollout releases the removals, and
// learns of them then (K16).
func TestHoldEndsIntoRollout(t *testing.T) {
	listeners := resource.TypeOf(resource.ListenerURL)
	for name, end := range map[string]func(w *world){
		"in time":  func(*world) { pass(guarding.RemovalHold + time.Second) },
		"by order": func(w *world) { w.group.Release() },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := guarding
			cfg.Linger = time.Hour // whose end notifies it, too
			inTime(t, cfg, func(t *testing.T, w *world) {
				listening := w.client(listeners, true)
				w.apply(listeners, res("l", "1"), res("m", "1"), res("n", "1"))
				listening.ask(t, Query{})
				var noted atomic.Int64
				w.group.Govern(&Governor{Types: map[string]bool{listeners.URL: true}, Changed: func(*Group) { noted.Add(1) }})
				w.remove(listeners, "l", "m", "n")
				pass(time.Second)
				before := noted.Load()
				end(w)
				if n := noted.Load() - before; n == 0 || !w.group.HasPending() {
					t.Errorf("the rollout was notified %d times, and pending is %t", n, w.group.HasPending())
				}
				expect(t, listening.ask(t, Query{}))
			})
		})
	}
}
