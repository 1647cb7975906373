package cache

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"xdsrelay/relay/aggregation"
)

// TestAsk: an inquiry without a subscription sees what a client with one would see, creates no
// demand, and knows which updates concern it.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		w.client(endpoints, false, "a", "b")
		all := w.client(clusters, true)
		w.apply(endpoints, versioned("a", "x", "1"), versioned("b", "y", "1"))
		w.apply(clusters, res("c", "x"), res("d", "y"))

		table := w.group.Table(endpoints)
		a, seen := table.Ask(false, []string{"a"})
		both, more := table.Ask(false, []string{"b", "a"})
		none, nothing := table.Ask(false, []string{"z"})
		if seen.Resources != 1 || more.Resources != 2 || nothing.Resources != 0 || seen.Version == more.Version {
			t.Errorf("%+v %+v %+v", seen, more, nothing)
		}
		if _, whole := all.table.Ask(true, nil); whole != (Seen{Version: all.table.Seen(&all.w).Version, Resources: 2, Gen: 2}) {
			t.Errorf("the wildcard: %+v, expected %+v", whole, all.table.Seen(&all.w))
		}
		if got := w.feed.TakeDemand(true, true); strings.Contains(fmt.Sprint(got), "z") {
			t.Errorf("it is demand: %v", got)
		}

		w.apply(endpoints, versioned("b", "y2", "2"))
		u, _ := table.Latest()
		if a.Met(u.Number) || !both.Met(u.Number) || none.Met(u.Number) || !a.Met(u.Number-1) || a.Met(0) || a.Met(u.Number+1) {
			t.Error("the wrong ones are concerned by a change")
		}
		w.remove(endpoints, "a")
		u, _ = table.Latest()
		if !a.Met(u.Number) || none.Met(u.Number) {
			t.Error("the wrong ones are concerned by a removal")
		}
		names := []string{}
		for _, l := range both.Lacks(seen.Gen) {
			names = append(names, l.Name)
		}
		if slices.Sort(names); !slices.Equal(names, []string{"a", "b"}) {
			t.Errorf("lacks %v", names)
		}
	})
}

// TestFind: a table is found by key and type, and never made.
func TestFind(t *testing.T) {
	w := start(t, Config{})
	w.client(endpoints, false, "a")
	if w.cache.Find(w.group.Key, endpoints) != w.group.Table(endpoints) || w.cache.Find(w.group.Key, clusters) != nil || w.cache.Find(aggregation.Key("other"), endpoints) != nil {
		t.Error("not the table of the key")
	}
}
