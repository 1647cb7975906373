package fanout

import (
	"fmt"
	"testing"
	"testing/synctest"

	"xdsrelay/relay/xdstest"
)

// holdings formats what a client holds of endpoints: "1 same, changed a STALE".
func holdings(c Client) string {
	text := ""
	for _, h := range c.Holdings() {
		if h.Type.URL != eds {
			continue
		}
		text = fmt.Sprintf("%d same", h.Same)
		for _, l := range h.Lacks {
			change := "added"
			switch {
			case l.Resource == nil:
				change = "removed"
			case l.Was:
				change = "changed"
			}
			if l.Maybe {
				change += "?"
			}
			text += fmt.Sprintf(", %s %s %s", change, l.Name, l.State)
		}
	}
	return text
}

// TestHoldings: a client holds what it has acknowledged. It also holds what is sent again unchanged
// after its cluster (E3); it may hold names that it subscribed to since from before.
func TestHoldings(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := holdings(w.only()); got != want {
				t.Errorf("it holds %s; expected %s", got, want)
			}
		}
		s.Subscribe(cds)
		s.Subscribe(eds, "a", "b")
		w.asked(eds, "a", "b")
		expect("0 same")
		w.serve("v1", cds, xdstest.Cluster("a", 1))
		s.Ack(s.Recv(t))
		w.serve("v1", eds, xdstest.Synthetic(eds, "a", 1), xdstest.Synthetic(eds, "b", 1))
		f := s.Recv(t)
		expect("0 same, added b STALE, added a STALE")
		s.Ack(f)
		expect("2 same")
		w.serve("v2", eds, xdstest.Synthetic(eds, "a", 2))
		s.Nack(s.Recv(t), "no")
		expect("1 same, changed a NACKED")
		w.serve("v3", eds, xdstest.Synthetic(eds, "b", 2), xdstest.Synthetic(eds, "a", 3))
		f = s.Recv(t)
		expect("0 same, changed a STALE, changed b STALE")
		s.Ack(f)
		w.serve("v2", cds, xdstest.Cluster("a", 2))
		s.Ack(s.Recv(t))
		s.RecvType(t, eds) // again
		expect("2 same")
	})
}
