package cache

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

func undoing(t *testing.T, f func(*testing.T, *world)) {
	t.Helper()
	inTime(t, Config{HistoryBytes: 1 << 20, Hold: -1}, f)
}

func sorted(c Changes) []string {
	names := said(c)
	slices.Sort(names)
	return names
}

// TestUndo: K12: an undo brings everybody back to what they had before the newest revision: clusters and
// routes of one intent together. The undone revision stays away although the control plane repeats it,
// and other changes wait. The undo ends when the control plane sends something else instead, once that is
// complete.
func TestUndo(t *testing.T) {
	undoing(t, func(t *testing.T, w *world) {
		cds, rds := w.client(clusters, true), w.client(routes, false, "r")
		w.feed.TakeDemand(true, true)
		w.full(clusters, "1", res("a", "1"), res("b", "1"))
		w.apply(routes, res("r", "1"))
		pass(time.Minute)
		w.full(clusters, "2", res("a", "2"), res("c", "1"))
		pass(100 * time.Millisecond)
		w.apply(routes, res("r", "2"))
		pass(time.Minute)
		cds.ask(t, Query{})
		rds.ask(t, Query{})
		u, n, err := w.cache.Undo(w.group.Key, Freeze{Reason: "test"})
		if err != nil || n != 4 || len(u.Revisions) != 1 || u.Revisions[0] != w.group.Revisions()[1].ID || len(u.Refused) != 4 {
			t.Fatalf("%+v, %d changes, %v", u, n, err)
		}
		for _, typ := range w.group.Revisions()[1].Types { // one update of several names, and one of a single name
			want := map[string][]string{clusters.URL: {"a", "b", "c"}, routes.URL: {"r"}}[typ.TypeURL]
			if got := slices.Sorted(slices.Values(typ.Names)); !slices.Equal(got, want) {
				t.Errorf("the revision changed %q of %s, expected %q", got, typ.TypeURL, want)
			}
		}
		if got := sorted(cds.ask(t, Query{})); !slices.Equal(got, []string{"-c", "a", "b"}) {
			t.Errorf("clusters: %q", got)
		}
		rds.gets(t, "routes", "r")
		if w.group.Revisions()[0].ID != w.group.Revisions()[2].ID {
			t.Error("equal content is another revision")
		}
		if _, _, err := w.cache.Undo(w.group.Key, Freeze{}); !errors.Is(err, ErrNothingToUndo) {
			t.Errorf("once more: %v", err)
		}
		w.cache.FreezeAll(Freeze{}) // and back, which does not end the undo
		w.cache.UnfreezeAll()
		w.full(clusters, "3", res("a", "2"), res("c", "1"), res("d", "1"))
		w.apply(routes, res("r", "2"))
		pass(time.Minute)
		cds.gets(t, "repeated")
		rds.gets(t, "repeated")
		w.full(clusters, "4", res("a", "3"), res("c", "1"), res("d", "1"))
		pass(200 * time.Millisecond)
		cds.gets(t, "a fix that may be incomplete")
		w.apply(routes, res("r", "3"))
		pass(200 * time.Millisecond)
		cds.gets(t, "a fix that may be incomplete")
		pass(time.Second)
		if got := sorted(cds.ask(t, Query{})); !slices.Equal(got, []string{"-b", "a", "c", "d"}) {
			t.Errorf("the fix: %q", got)
		}
		rds.gets(t, "the fix", "r")
		if o := w.cache.Orders(); len(o.Undone) > 0 || w.group.Table(clusters).core.streams[0].gate != nil {
			t.Errorf("%+v is left", o)
		}
	})
}

// TestUndoSeveral: each further undo goes back by one more revision; all end together.
func TestUndoSeveral(t *testing.T) {
	undoing(t, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		w.feed.TakeDemand(true, true)
		for i := range 4 {
			w.full(clusters, fmt.Sprint(i), res("a", fmt.Sprint(i)))
			pass(time.Minute)
		}
		c.ask(t, Query{})
		for _, want := range []string{"2", "1", "0"} {
			if _, _, err := w.cache.Undo(w.group.Key, Freeze{}); err != nil {
				t.Fatal(err)
			}
			if got := c.ask(t, Query{}); len(got.Resources) != 1 || string(got.Resources[0].Body) != want {
				t.Errorf("%v, expected %s", got.Resources, want)
			}
		}
		if _, _, err := w.cache.Undo(w.group.Key, Freeze{}); !errors.Is(err, ErrNothingToUndo) {
			t.Errorf("%v", err)
		}
		w.cache.Unfreeze(w.group.Key)
		if got := c.ask(t, Query{}); len(got.Resources) != 1 || string(got.Resources[0].Body) != "3" || got.Version != "3" {
			t.Errorf("%v", got.Resources)
		}
	})
}

// TestUndoRefuses: without the former contents of all that a revision changed, nothing is undone; and
// the answer to a client that asks by name is no revision to go back from (K13).
func TestUndoRefuses(t *testing.T) {
	undoing(t, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		w.feed.TakeDemand(true, true)
		w.full(clusters, "1", res("a", "1"))
		pass(time.Minute)
		if _, _, err := w.cache.Undo(w.group.Key, Freeze{}); !errors.Is(err, ErrNothingToUndo) {
			t.Errorf("the first content: %v", err)
		}
		w.full(clusters, "2", res("a", "2"))
		pass(time.Minute)
		w.client(routes, false, "r")
		w.apply(routes, res("r", "1"))
		c.ask(t, Query{})
		w.cache.DropHistory()
		if _, _, err := w.cache.Undo(w.group.Key, Freeze{}); err == nil || errors.Is(err, ErrNothingToUndo) {
			t.Errorf("without the former content: %v", err)
		}
		c.gets(t, "nothing happened")
		if w.full(clusters, "3", res("a", "3")) != 1 {
			t.Error("the key is held")
		}
		pass(time.Minute)
		if _, _, err := w.cache.Undo(w.group.Key, Freeze{}); err != nil {
			t.Error(err)
		}
		if got := c.ask(t, Query{}); string(got.Resources[0].Body) != "2" {
			t.Errorf("%s", got.Resources[0].Body)
		}
		if _, _, err := w.cache.Undo("no", Freeze{}); !errors.Is(err, ErrNoKey) {
			t.Errorf("%v", err)
		}
	})
}

// TestUndoRestarts: orders outlive a restart together with last known good: the control plane's first
// answer does not bring back what was undone, and nothing is released before it.
func TestUndoRestarts(t *testing.T) {
	undoing(t, func(t *testing.T, w *world) {
		w.client(clusters, true)
		w.feed.TakeDemand(true, true)
		w.full(clusters, "1", res("a", "1"), res("b", "1"))
		pass(time.Minute)
		w.full(clusters, "2", res("a", "2"))
		pass(time.Minute)
		if _, _, err := w.cache.Undo(w.group.Key, Freeze{Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		good, ok := w.group.Table(clusters).Snapshot()
		if !ok || len(good.Resources) != 2 {
			t.Fatalf("last known good has %d resources, expected what clients see", len(good.Resources))
		}
		orders := w.cache.Orders()
		orders.Undone["later"] = orders.Undone[w.group.Key]
		delete(orders.Undone, w.group.Key)
		w.cache.Obey(orders)
		w.group = w.cache.Join("later", w.group.Node)
		w.feed = <-w.feeds
		w.group.RestoreFrom(good)
		c := w.client(clusters, true)
		w.feed.TakeDemand(true, true)
		pass(time.Minute)
		if got := sorted(c.ask(t, Query{})); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("restored: %q", got)
		}
		w.full(clusters, "2", res("a", "2"))
		pass(time.Minute)
		c.gets(t, "the first answer")
		w.full(clusters, "3", res("a", "3"), res("b", "1"))
		pass(time.Minute)
		c.gets(t, "the fix", "a")
	})
}

// TestFrozenRestarts: ROLLOUT 4.8: a frozen key begins with last known good, and the control plane's
// first answer is compared with that.
func TestFrozenRestarts(t *testing.T) {
	undoing(t, func(t *testing.T, w *world) {
		w.client(clusters, true)
		w.feed.TakeDemand(true, true)
		w.full(clusters, "1", res("a", "1"), res("b", "1"))
		good, _ := w.group.Table(clusters).Snapshot()
		w.cache.FreezeAll(Freeze{})
		w.group = w.cache.Join("later", w.group.Node)
		w.feed = <-w.feeds
		w.group.RestoreFrom(good)
		c := w.client(clusters, true)
		w.feed.TakeDemand(true, true)
		w.full(clusters, "2", res("a", "2"), res("c", "1"))
		if got := sorted(c.ask(t, Query{})); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("the first answer: %q", got)
		}
		if p := w.group.Pending(); len(p) != 1 || p[0].Added+p[0].Changed+p[0].Removed != 3 {
			t.Errorf("%+v is pending", p)
		}
	})
}
