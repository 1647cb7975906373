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
				w.feed.Apply(Update{Type: clusters, Mirror: &Mirror{}, Resources: res2("x")})
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
// may have stalled, exist if another node has them, once there is no stream any more. If the stream led to
// another node before, its silence is no answer, and takes nothing from clients that return (K14).
func TestSilentAbsences(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(w *world)
		proven bool
	}{
		"another node answered before": {before: func(w *world) { w.feed.Borrow(true); w.feed.Borrow(false); w.feed.Doubt() }},
		"the process slept":            {before: func(w *world) { w.cache.Slept(time.Now()) }, proven: true},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute}, func(t *testing.T, w *world) {
				c := w.client(endpoints, false, "a", "b", "c")
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.apply(endpoints, endpointSet(t, "b", 1), endpointSet(t, "c", 1))
				tc.before(w)
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.feed.Absent(endpoints, []string{"a"})
				expectSees(t, c, "-a", "b", "c")
				if gone, _, _ := c.table.Gone(&c.w, nil, []resource.Held{{Name: "a", Version: "1"}}); (gone != nil) != tc.proven {
					t.Errorf("gone: %v, expected the silence to count: %t", gone, tc.proven)
				}
				pass(time.Second)
				theirs := []Snapshot{holds(endpoints, false, time.Now(), endpointSet(t, "a", 1))}
				w.group.Renew(theirs)
				expectSees(t, c, "-a", "b", "c")
				w.feed.Down(errOut)
				w.group.Renew(theirs)
				pass(time.Second)
				expectSees(t, c, "a", "b", "c")
				w.check()
			})
		})
	}
}
