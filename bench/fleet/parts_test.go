package fleet

import (
	"context"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/bench/content"
)

// TestRoles holds that shares are dealt out exactly, and evenly.
func TestRoles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3000).Draw(t, "connections")
		shares := map[role]float64{}
		for r := slow; r <= restless; r++ {
			shares[r] = rapid.Float64Range(0, 25).Draw(t, "share")
		}
		dealt := roles(n, shares)
		counts := map[role]int{}
		special := 0
		for _, r := range dealt {
			counts[r]++
			if r != normal {
				special++
			}
		}
		for r, share := range shares {
			if want := float64(n) * share / 100; float64(counts[r]) < want-0.51 || float64(counts[r]) > want+0.51 {
				t.Fatalf("%d of %d are %s, expected %g", counts[r], n, r, want)
			}
		}
		first := slices.IndexFunc(dealt, func(r role) bool { return r != normal })
		if special > 0 && first > n/special {
			t.Fatalf("the first of %d special ones among %d is %d", special, n, first)
		}
	})
}

// TestSets holds sets against maps.
func TestSets(t *testing.T) {
	numbers := rapid.SliceOfN(rapid.IntRange(0, 300), 0, 40)
	rapid.Check(t, func(t *rapid.T) {
		a, b := numbers.Draw(t, "a"), numbers.Draw(t, "b")
		x, y := setOf(a), setOf(b)
		if x.len() != len(distinct(a)) || !slices.Equal(listed(x), distinct(a)) {
			t.Fatalf("the set of %v has %v", a, listed(x))
		}
		union, minus := distinct(append(slices.Clone(a), b...)), slices.DeleteFunc(distinct(a), func(i int) bool { return slices.Contains(b, i) })
		if got := x.union(y); !slices.Equal(listed(got), union) || !got.same(setOf(union)) {
			t.Fatalf("%v and %v are together %v", a, b, listed(got))
		}
		if got := x.minus(y); !slices.Equal(listed(got), minus) || !got.same(setOf(minus)) {
			t.Fatalf("%v without %v is %v", a, b, listed(got))
		}
		if got, want := x.within(y), len(minus) == 0; got != want {
			t.Fatalf("%v within %v: %v", a, b, got)
		}
		if got, want := x.same(y), slices.Equal(distinct(a), distinct(b)); got != want {
			t.Fatalf("%v is %v: %v", a, b, got)
		}
		for i := range 310 {
			if x.has(i) != slices.Contains(a, i) {
				t.Fatalf("%d in %v: %v", i, a, x.has(i))
			}
		}
		if even := x.even(); even.len() != (x.len()+1)/2 || !even.within(x) {
			t.Fatalf("every second of %v is %v", a, listed(even))
		}
		if !x.within(everything) || x.union(everything) != everything || !everything.has(7) || x.minus(everything).len() != 0 || everything.minus(x) != everything {
			t.Fatal("everything is not all there is")
		}
	})
}

func setOf(numbers []int) *set {
	var words []uint64
	for _, i := range numbers {
		words = setBit(words, i)
	}
	return newSet(words)
}

func listed(s *set) (all []int) {
	s.each(func(i int) { all = append(all, i) })
	return all
}

func distinct(numbers []int) []int {
	sorted := slices.Sorted(slices.Values(numbers))
	return slices.Compact(sorted)
}

// TestMemo holds that what is used stays and what is not goes, within a budget.
func TestMemo(t *testing.T) {
	m := memo[int, int]{budget: 10}
	for i := range 1000 {
		m.put(i, i, 3)
		if got, ok := m.get(0); !ok || got != 0 {
			t.Fatalf("what is used is gone after %d", i)
		}
		if n := len(m.young) + len(m.old); n > 8 {
			t.Fatalf("%d values of weight 3 are there in a budget of twice 10", n)
		}
	}
	if _, ok := m.get(990); ok {
		t.Error("what is not used is still there")
	}
	m.put(5000, 1, 100) // heavier than the budget
	if _, ok := m.get(5000); !ok {
		t.Error("what is heavier than the budget is not there")
	}
}

// TestDue holds which changes count when a client jumps over some.
func TestDue(t *testing.T) {
	at := func(rev uint64) int64 { return 1000 + 100*int64(rev) }
	see := func(w *world, k kind, revs ...uint64) {
		for _, r := range revs {
			w.note(k, r, at(r))
		}
	}
	check := func(name string, got []int64, want ...uint64) {
		t.Helper()
		times := make([]int64, len(want))
		for i, r := range want {
			times[i] = at(r)
		}
		if !slices.Equal(got, times) {
			t.Errorf("%s: %v, expected %v", name, got, times)
		}
	}
	w := &world{}
	see(w, cds, 0, 1, 2, 5)
	check("each that somebody saw, and those in between", w.due(cds, 0, 1, 1, 5), 2, 3, 4, 5)
	see(w, eds, 3)
	check("those of the type alone", w.due(cds, 0, 1, 1, 5), 2, 5)
	check("another type", w.due(eds, 0, 1, 0, 3), 3)
	check("nothing new", w.due(cds, 0, 1, 5, 5))

	w = &world{}
	see(w, cds, 0, 9)
	see(w, eds, 1)
	plan := Plan{First: 4, At: time.Unix(0, at(4)), Interval: 100, Count: 3, Change: content.Change{Kind: content.One, Type: content.ClusterURL}}
	if err := w.expect(plan, 1<<cds|1<<eds); err != nil {
		t.Fatal(err)
	}
	check("what was announced", w.due(cds, 0, 1, 0, 9), 4, 5, 6, 9)
	check("what was announced of another type", w.due(eds, 0, 1, 0, 9), 1)
	full := Plan{First: 20, At: time.Unix(0, at(20)), Interval: 100, Change: content.Change{Kind: content.Full}}
	if err := w.expect(full, 1<<cds|1<<eds); err != nil {
		t.Fatal(err)
	}
	check("without an end", w.due(eds, 0, 1, 19, 22), 20, 21, 22)
	if got := len(w.due(eds, 0, 1, 0, 1<<40)); got != longestGap {
		t.Errorf("%d changes count of many, expected %d", got, longestGap)
	}
	w = &world{}
	see(w, cds, 0, 9)
	see(w, eds, 0, 8)
	mixed := Plan{First: 4, At: time.Unix(0, at(4)), Interval: 100, Count: 6, Change: content.Change{Kind: content.One, Type: content.EndpointURL, ClusterEvery: 3}}
	if err := w.expect(mixed, 1<<cds|1<<eds); err != nil {
		t.Fatal(err)
	}
	check("clusters between endpoints", w.due(cds, 0, 1, 0, 9), 6, 9)
	check("endpoints but for clusters", w.due(eds, 0, 1, 0, 9), 4, 5, 7, 8)
	w = &world{}
	see(w, eds, 0, 8)
	turns := Plan{First: 4, At: time.Unix(0, at(4)), Interval: 100, Count: 6, Change: content.Change{Kind: content.One, Type: content.EndpointURL, OneKey: true}}
	if err := w.expect(turns, 1<<cds|1<<eds); err != nil {
		t.Fatal(err)
	}
	check("one key at a time", w.due(eds, 1, 3, 0, 9), 4, 7)
	for _, bad := range []Plan{{}, {First: 1, At: time.Unix(1, 0)}, {First: 1, At: time.Unix(1, 0), Interval: 1, Change: content.Change{Type: "x"}}} {
		if err := w.expect(bad, 3); err == nil {
			t.Errorf("plan %+v was accepted", bad)
		}
	}
}

// TestRamp holds that no more connections are made at a time than allowed, nor
// more in a time.
func TestRamp(t *testing.T) {
	r := newRamp(2, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	begun := time.Now()
	for range 20 {
		if !r.take(ctx) {
			t.Fatal("no turn")
		}
		r.give()
	}
	if d := time.Since(begun); d < 19*time.Millisecond {
		t.Errorf("20 turns at 1000 a second took %v", d)
	}
	r.take(ctx)
	r.take(ctx)
	third := make(chan bool)
	go func() { third <- r.take(ctx) }()
	select {
	case <-third:
		t.Fatal("a third turn at a time, expected 2")
	case <-time.After(20 * time.Millisecond):
	}
	cancel()
	if <-third {
		t.Error("a turn after the end")
	}
}

// TestConfig holds how wrong configurations are told.
func TestConfig(t *testing.T) {
	for want, cfg := range map[string]Config{
		"no addresses":                          {Clients: 1},
		`address "nowhere", expected host:port`: {Addrs: []string{"nowhere"}, Clients: 1},
		"0 clients":                             {Addrs: []string{":1"}},
		"shares of 120 % together":              {Addrs: []string{":1"}, Clients: 1, Slow: 60, Nack: 60},
		"a stuck share of -1 %":                 {Addrs: []string{":1"}, Clients: 1, Stuck: -1},
		`type "sds", expected cds, eds`:         {Addrs: []string{":1"}, Clients: 1, Types: []string{"sds"}},
		"type rds without lds":                  {Addrs: []string{":1"}, Clients: 1, Types: []string{"cds", "rds"}},
		"keys: got -1":                          {Addrs: []string{":1"}, Clients: 1, Content: content.Spec{Keys: -1, Clusters: 1}},
		"plain TCP with shared connections":     {Addrs: []string{":1"}, Clients: 1, Plain: true, PerType: true},
		"a connect rate of -1":                  {Addrs: []string{":1"}, Clients: 1, ConnectRate: -1},
	} {
		if f, err := New(cfg); err == nil {
			f.Close()
			t.Errorf("%+v was accepted, expected %q", cfg, want)
		} else if !contains(err, want) {
			t.Errorf("got %v, expected %q", err, want)
		}
	}
}
