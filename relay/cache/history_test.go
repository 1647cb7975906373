package cache

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

// story formats a history: "+1 ~2 -0 =3" for each update, the newest first.
func story(t *Table) (lines []string) {
	for _, p := range t.History() {
		lines = append(lines, fmt.Sprintf("%s +%d ~%d -%d =%d", p.Cause, p.Added, p.Changed, p.Removed, p.Resources))
	}
	return lines
}

// TestHistory: a table remembers its newest updates that changed something, as many as configured:
// when, from which sender, with which version, and how much was changed.
func TestHistory(t *testing.T) {
	w := start(t, Config{History: 3})
	w.client(clusters, true)
	table := w.group.Table(clusters)
	w.feed.SetServer("10.0.0.1:18000")
	full := func(version string, rs ...*resource.Resource) {
		w.feed.Apply(Update{Type: clusters, Full: true, Resources: rs, Version: version, Source: "istiod"})
	}
	before := time.Now().Add(-time.Millisecond)
	full("v1", res("a", "1"), res("b", "1"))
	full("v2", res("a", "1"), res("b", "1")) // the same
	full("v3", res("a", "2"), res("c", "1"))
	expect := func(want ...string) {
		t.Helper()
		if got := story(table); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q, expected %q", got, want)
		}
	}
	expect("upstream +1 ~1 -1 =2", "upstream +2 ~0 -0 =2")
	past := table.History()[0]
	if past.Version != "v3" || past.Source != "istiod" || past.Server != "10.0.0.1:18000" || past.At.Before(before) || past.Digest != table.Digest().Digest.Hex() || past.Generation != table.Digest().Generation {
		t.Errorf("%+v", past)
	}
	w.apply(clusters, res("a", "3"))
	if past = table.History()[0]; past.Version != table.Digest().Version {
		t.Errorf("without a version of the origin: %+v, the table's is %s", past, table.Digest().Version)
	}
	w.remove(clusters, "c", "nothing of that name")
	expect("upstream +0 ~0 -1 =1", "upstream +0 ~1 -0 =2", "upstream +1 ~1 -1 =2")
	w.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{res("d", "1")}, Mirror: &Mirror{}})
	expect("owner +1 ~0 -0 =2", "upstream +0 ~0 -1 =1", "upstream +0 ~1 -0 =2")
}

// TestSourceGoes: a server that does not identify itself does not get the name of the previous one,
// or of the node that was followed (K7).
func TestSourceGoes(t *testing.T) {
	w := start(t, Config{})
	w.client(clusters, true)
	table := w.group.Table(clusters)
	updates := 0
	says := func(u Update, want string) {
		t.Helper()
		updates++
		u.Type, u.Resources = clusters, []*resource.Resource{res("a", fmt.Sprint(updates))}
		w.feed.Apply(u)
		if got := table.History()[0].Source; got != want {
			t.Errorf("update %d is from %q, expected %q", updates, got, want)
		}
	}
	w.feed.SetServer("10.0.0.1:18000")
	says(Update{Source: "node-2", Mirror: &Mirror{}}, "node-2")
	says(Update{}, "")
	says(Update{Source: "istiod"}, "istiod")
	says(Update{}, "istiod") // it need not identify itself each time
	w.feed.SetServer("10.0.0.2:18000")
	says(Update{Kind: Partial}, "istiod") // a part, or no answer
	says(Update{}, "")
}

// TestNoHistory: a table keeps none if it is configured so, nor if it belongs to a single client.
func TestNoHistory(t *testing.T) {
	w := start(t, Config{History: -1})
	w.client(clusters, true)
	w.apply(clusters, res("a", "1"))
	if h := w.group.Table(clusters).History(); len(h) > 0 {
		t.Errorf("%+v", h)
	}
}

// TestHistoryCost: an update costs no allocation for its history once the ring is full.
func TestHistoryCost(t *testing.T) {
	cost := func(history int) float64 {
		w := start(t, Config{History: history, Wake: func([]*Subscription) {}})
		w.client(clusters, true)
		table := w.group.Table(clusters)
		table.mu.Lock()
		defer table.mu.Unlock()
		return testing.AllocsPerRun(100, func() {
			table.core.record(&updateTxn{table: &table.core, changed: 1}, time.Now(), CauseOrigin, "")
		})
	}
	if with, without := cost(20), cost(-1); with > without {
		t.Errorf("%v allocations with a history, %v without", with, without)
	}
}

// TestLacks: the difference of a client at a generation is that between what its subscription saw
// then and what it sees now. Only for names that were added and removed meanwhile it is unknown
// whether the client has them, and that is reported.
func TestLacks(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t, Config{})
		defer w.close()
		names := []string{"a", "b", "c", "d", "e"}
		wild := rapid.Bool().Draw(r, "wildcard")
		var wanted []string
		if !wild {
			wanted = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 4, rapid.ID[string]).Draw(r, "names")
		}
		w.client(clusters, true) // asks for all of it
		c := w.client(clusters, wild, wanted...)
		sub := c.table.Subscription(&c.w)
		sees := func() map[string]*resource.Resource {
			all := map[string]*resource.Resource{}
			for _, s := range sub.Sights(nil) {
				if s.Resource != nil {
					all[s.Name] = s.Resource
				}
			}
			return all
		}
		content := 0
		change := func() {
			name := rapid.SampledFrom(names).Draw(r, "name")
			if rapid.IntRange(0, 2).Draw(r, "remove") == 0 {
				w.remove(clusters, name)
				return
			}
			content++
			w.apply(clusters, res(name, fmt.Sprint(content)))
		}
		for range rapid.IntRange(0, 10).Draw(r, "before") {
			change()
		}
		then, since := sees(), w.group.Table(clusters).Digest().Generation
		for range rapid.IntRange(0, 10).Draw(r, "after") {
			change()
		}
		now, want := sees(), map[string]bool{}
		for _, name := range names {
			want[name] = then[name] != now[name]
		}
		for _, l := range sub.Lacks(since) {
			if l.Resource != now[l.Name] {
				r.Errorf("%s is another one", l.Name)
			}
			if !l.Maybe && (!want[l.Name] || l.Was != (then[l.Name] != nil)) {
				r.Errorf("%+v, and there was %v and is %v", l, then[l.Name], now[l.Name])
			}
			delete(want, l.Name)
		}
		for name, differs := range want {
			if differs {
				r.Errorf("%s was %v and is %v, which is not told", name, then[name], now[name])
			}
		}
	})
}
