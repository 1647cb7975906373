package cache

import (
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

// TestRestoredWhileConnecting: K15: a node has followed another one, and its own first attempt to reach
// the control plane hangs. New clients get content of a third node, as while the control plane is
// unreachable, and it is asked for once.
func TestRestoredWhileConnecting(t *testing.T) {
	for name, wildcard := range map[string]bool{"everything": true, "by name": false} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute}, func(t *testing.T, w *world) {
				first := w.client(clusters, false, "x")
				w.feed.Borrow(true)
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.feed.Apply(Update{Type: clusters, Mirror: true, Resources: res2("x")})
				expect(t, first.ask(t, Query{}), "x")
				w.feed.Borrow(false)
				names := []string{"a"}
				if wildcard {
					names = nil
				}
				c := w.client(clusters, wildcard, names...)
				if need, link := w.feed.Need(); need != NeedContent || link != LinkConnecting {
					t.Fatalf("need %d of a link %d", need, link)
				}
				theirs := []Snapshot{holds(clusters, true, time.Now(), res2("a", "x")...)}
				if !w.group.Renew(theirs) {
					t.Error("nothing was taken")
				}
				want := names
				if wildcard {
					want = []string{"a", "x"}
				}
				expectSees(t, c, want...)
				if w.group.Renew(theirs) {
					t.Error("the same is taken again")
				}
				w.check()
			})
		})
	}
}

// TestSilentAbsences: K12: names about which a control plane has been silent for long, on a connection that
// may have stalled, exist if another node has them, once there is no stream any more.
func TestSilentAbsences(t *testing.T) {
	inTime(t, Config{Linger: time.Minute}, func(t *testing.T, w *world) {
		c := w.client(endpoints, false, "a", "b")
		w.feed.Borrow(true)
		w.feed.TakeDemand(true, true)
		w.feed.Up()
		w.feed.Apply(Update{Type: endpoints, Mirror: true, Resources: []*resource.Resource{endpointSet(t, "b", 1)}})
		w.feed.Borrow(false)
		w.feed.Doubt()
		w.feed.TakeDemand(true, true)
		w.feed.Up()
		w.feed.Absent(endpoints, []string{"a"})
		expectSees(t, c, "-a", "b")
		pass(time.Second)
		theirs := []Snapshot{holds(endpoints, false, time.Now(), endpointSet(t, "a", 1))}
		w.group.Renew(theirs)
		expectSees(t, c, "-a", "b")
		w.feed.Down(errOut)
		w.group.Renew(theirs)
		pass(time.Second)
		expectSees(t, c, "a", "b")
		w.check()
	})
}
