package fanout

import (
	"sync"
	"testing"
)

// TestStreamsWhileIdentified: streams are described while their first request is read, which the
// race detector watches.
func TestStreamsWhileIdentified(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		stop := make(chan struct{})
		var others sync.WaitGroup
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					w.srv.Streams()
				}
			}
		})
		for range 50 {
			s := w.open(delta)
			s.Subscribe(cds, "a")
			s.Cancel()
		}
		close(stop)
		others.Wait()
	})
}
