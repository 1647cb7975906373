package cache

import (
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

// TestClaimsAgainstSilence: C12, K14: a stream on which the control plane has sent nothing of a
// type may be dead without a notice, even if it has answered for other types, so its silence
// removes nothing from a client that returns with resources that this node never knew. A waiting
// client is notified that they do not exist. The silence and the answers of a control plane that
// has answered for the type count.
func TestClaimsAgainstSilence(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after func(w *world)
		open          bool
	}{
		"not a word":                 {nil, nil, true},
		"it answers for other types": {func(w *world) { w.feed.Up(); w.apply(clusters, res("a", "1")) }, nil, true},
		"it answers later":           {nil, func(w *world) { w.feed.Up(); w.apply(endpoints) }, false},
		"it answered earlier":        {func(w *world) { w.apply(endpoints) }, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, Config{})
			c := w.client(endpoints, false, "a")
			w.feed.TakeDemand(true, true)
			if tc.before != nil {
				tc.before(w)
			}
			w.feed.Absent(endpoints, []string{"a"})
			if tc.after != nil {
				tc.after(w)
			}
			expectSees(t, c, "-a")
			if gone, rest, _ := c.table.Gone(&c.w, nil, []resource.Held{{Name: "a", Version: "1"}}); tc.open != (gone == nil) || tc.open != (len(rest) == 1) {
				t.Errorf("%v have gone, and %v are open; expected them to be open: %t", gone, rest, tc.open)
			}
		})
	}
}

// TestAnswerToOtherClaims: C8: an answer to claims that restored content has replaced stores
// nothing; one that arrives after the end of the demand does not lead to another question.
func TestAnswerToOtherClaims(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		began := time.Now()
		w.feed.Down(errOut)
		w.group.RestoreFrom(holds(clusters, true, began, res("a", "1")))
		before := w.feed.Claims(clusters)
		pass(time.Minute)
		w.group.Renew([]Snapshot{holds(clusters, true, began.Add(time.Second), res("a", "2"), res("b", "1"))})
		if n, ok := w.feed.ApplyAnswer(before, Update{Type: clusters, Removed: []string{"a"}, Differences: true}); n > 0 || ok {
			t.Errorf("an answer to other claims: %d changes, %t", n, ok)
		}
		expectSees(t, c, "a", "b")
		if n, ok := w.feed.ApplyAnswer(w.feed.Claims(clusters), Update{Type: clusters, Removed: []string{"a"}, Differences: true}); n != 1 || !ok {
			t.Errorf("an answer to these claims: %d changes, %t", n, ok)
		}
		if n, ok := w.feed.ApplyAnswer(0, Update{Type: endpoints}); n > 0 || !ok {
			t.Errorf("an answer about what nobody asked for: %d changes, %t", n, ok)
		}
	})
}
