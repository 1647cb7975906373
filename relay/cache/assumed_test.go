package cache

import (
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

// TestAssumedEndsWithTheStream: C12, C14, K15: what a control plane was silent about, that never
// answered for the type, counts as absent for as long as its stream lasts. Once it is out of
// reach, or the node follows another one, a client that comes new is sent nothing of it.
func TestAssumedEndsWithTheStream(t *testing.T) {
	for name, tc := range map[string]struct {
		end         func(w *world)
		unreachable bool
	}{
		"out of reach":          {func(w *world) { w.feed.Down(errOut) }, true},
		"another node's by now": {func(w *world) { w.feed.Borrow(true) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, Config{})
			first := w.client(endpoints, false, "a", "b")
			w.feed.TakeDemand(true, true)
			w.feed.Up()
			w.apply(clusters, res("a", "1"))
			w.feed.Absent(endpoints, []string{"a"})
			expectSees(t, first, "-a")
			w.nap()
			tc.end(w)
			if h := first.head(); h.Answer == Answered || (h.Answer == OutOfReach) != tc.unreachable {
				t.Errorf("%+v", h)
			}
			if tc.unreachable && !w.woke()[first.w.sub] {
				t.Error("a client that waits is not woken")
			}
			second := w.client(endpoints, false, "a")
			expect(t, second.ask(t, Query{}))
			expect(t, second.ask(t, Query{Force: NewNames([]string{"a"})}))
			if missing := w.feed.Missing(endpoints, []string{"a", "b"}); !slices.Equal(missing, []string{"a", "b"}) {
				t.Errorf("what may still come is %v", missing)
			}
			w.feed.TakeDemand(true, true)
			w.feed.Up()
			w.feed.Absent(endpoints, []string{"a"})
			expect(t, second.ask(t, Query{}), "-a")
			w.apply(endpoints, res("b", "1"))
			w.feed.Down(errOut)
			expect(t, w.client(endpoints, false, "a").ask(t, Query{}), "-a") // the origin has answered
		})
	}
}

// TestAssumedIsNotPassedOn: C12, K14: what a control plane was silent about, that never answered
// for the type, is no answer to other nodes, nor do they learn that it does not exist.
func TestAssumedIsNotPassedOn(t *testing.T) {
	w := start(t, Config{})
	w.group.RestoreFrom(holds(endpoints, false, time.Now(), res("b", "1")))
	c := w.client(endpoints, false, "a", "b")
	w.feed.TakeDemand(true, true)
	w.feed.Up()
	w.feed.Absent(endpoints, []string{"a"})
	passedOn := func() (known bool, absent []string) {
		t.Helper()
		got, err := c.table.Changes(&c.w, Query{Reader: OtherNode})
		held := w.group.Snapshots()
		if err != nil || len(held) != 1 {
			t.Fatalf("%v, %v", held, err)
		}
		if c.table.Assumes(&c.w) == got.Known || w.feed.Settled(endpoints) != got.Known {
			t.Errorf("assumes: %t, settled: %t, known: %t", c.table.Assumes(&c.w), w.feed.Settled(endpoints), got.Known)
		}
		return got.Known, held[0].Absent
	}
	if known, absent := passedOn(); known || len(absent) > 0 {
		t.Errorf("passed on as known: %t, absent: %v", known, absent)
	}
	w.apply(endpoints, res("b", "1"))
	if known, absent := passedOn(); !known || !slices.Equal(absent, []string{"a"}) {
		t.Errorf("after an answer passed on as known: %t, absent: %v", known, absent)
	}
}

// TestAssumedByTheOwner: C12, K14: what the owner of a key says is absent, in a response that is no
// answer to all that it was asked, takes nothing from a client that comes with it, until there
// is such an answer. A client that waits receives it at once.
func TestAssumedByTheOwner(t *testing.T) {
	w := start(t, Config{})
	c := w.client(endpoints, false, "a")
	w.feed.Borrow(true)
	w.feed.TakeDemand(true, true)
	w.feed.Up()
	w.feed.Apply(Update{Type: endpoints, Removed: []string{"a"}, Differences: true, Mirror: &Mirror{}, Kind: Partial})
	expectSees(t, c, "-a")
	claims := []resource.Held{{Name: "a", Version: "1"}}
	if send, _, rest := c.table.Reconcile(&c.w, nil, claims, false); send != nil && send.Len() > 0 || len(rest) != 1 {
		t.Errorf("sent %v, %v left", send, rest)
	}
	if gone, rest, _ := c.table.Gone(&c.w, nil, claims); gone != nil || len(rest) != 1 {
		t.Errorf("%v is gone, and %v left", gone, rest)
	}
	w.feed.Apply(Update{Type: endpoints, Differences: true, Mirror: &Mirror{}})
	if gone, rest, _ := c.table.Gone(&c.w, nil, claims); gone == nil || len(rest) != 0 {
		t.Errorf("after the answer %v is gone, and %v left", gone, rest)
	}
}
