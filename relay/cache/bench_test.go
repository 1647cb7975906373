package cache

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"xdsrelay/relay/resource"
)

var sizes = []int{100, 10_000, 100_000}

// benchWorld is a table of n resources, named 0 to n-1.
func benchWorld(tb testing.TB, n int) (*world, *client) {
	tb.Helper()
	w := newWorld(tb, Config{Wake: func([]*Subscription) {}})
	tb.Cleanup(w.cache.Close)
	all := w.client(endpoints, true)
	rs := make([]*resource.Resource, n)
	for i := range rs {
		rs[i] = res(fmt.Sprint(i), "some content of a resource")
	}
	w.apply(endpoints, rs...)
	all.ask(tb, Query{})
	return w, all
}

func nameList(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return names
}

// BenchmarkApplyOneChange: one resource changes in a table that a wildcard and 1,000 single-name
// subscriptions watch, of which 10 have the name. The cost must not depend on the size of the
// table.
func BenchmarkApplyOneChange(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w, _ := benchWorld(b, n)
			for i := range 1000 {
				w.client(endpoints, false, fmt.Sprint(i%100), fmt.Sprint("x", i))
			}
			var updates []Update
			for i := range 200 {
				updates = append(updates, Update{Type: endpoints, Resources: []*resource.Resource{res(fmt.Sprint(i/2), fmt.Sprint(i%2))}})
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if w.feed.Apply(updates[i%len(updates)]) != 1 {
					b.Fatal("no change")
				}
				i++
			}
		})
	}
}

// BenchmarkChangesSince: a client that is one change behind. The cost must not depend on the size
// of the table.
func BenchmarkChangesSince(b *testing.B) {
	for _, n := range sizes {
		w, all := benchWorld(b, n)
		some := w.client(endpoints, false, nameList(n)...)
		some.ask(b, Query{})
		before := all.at
		w.apply(endpoints, res("7", "changed"))
		for name, c := range map[string]*client{"": all, "/names": some} {
			b.Run(fmt.Sprint(n, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if got, err := c.table.Changes(&c.w, Query{Since: before}); err != nil || len(got.Resources) != 1 {
						b.Fatal(got, err)
					}
				}
			})
		}
	}
}

// BenchmarkSubscribeShared: the 10,000th client joins with the same 1,000 names as all others, and
// leaves.
func BenchmarkSubscribeShared(b *testing.B) {
	w, _ := benchWorld(b, 1000)
	names := nameList(1000)
	others := make([]client, 9999)
	for i := range others {
		others[i].table = w.group.Table(endpoints)
		others[i].table.Replace(&others[i].w, false, names)
	}
	last := client{table: w.group.Table(endpoints)}
	b.ReportAllocs()
	for b.Loop() {
		last.table.Replace(&last.w, false, names)
		last.table.Leave(&last.w)
	}
}

// bytesPerClient is the memory of each further client of a shared subscription to n names.
func bytesPerClient(tb testing.TB, n int) float64 {
	tb.Helper()
	const clients = 10_000
	w, _ := benchWorld(tb, n)
	names := nameList(n)
	w.client(endpoints, false, names...)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	table := w.group.Table(endpoints)
	before := heap()
	cs := make([]*client, clients)
	for i := range cs {
		cs[i] = &client{table: table, at: Start}
		table.Replace(&cs[i].w, false, slices.Clone(names))
		if i%100 == 0 {
			cs[i].ask(tb, Query{})
		}
	}
	after := heap()
	runtime.KeepAlive(cs)
	runtime.KeepAlive(names)
	return float64(int64(after)-int64(before)) / clients
}

// BenchmarkMemoryPerClient reports bytes per client. It must not depend on the
// number of resources.
func BenchmarkMemoryPerClient(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var bytes float64
			for b.Loop() {
				bytes = bytesPerClient(b, n)
			}
			b.ReportMetric(bytes, "B/client")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// TestMemoryPerClient: a client is a position in a history, however many
// resources it sees.
func TestMemoryPerClient(t *testing.T) {
	for _, n := range []int{10, 1000} {
		if bytes := bytesPerClient(t, n); bytes > 256 {
			t.Errorf("%.0f bytes for each client of %d resources", bytes, n)
		}
	}
}

// TestAllocations: the work of every flush and every ACK allocates nothing.
func TestAllocations(t *testing.T) {
	w, all := benchWorld(t, 1000)
	names := nameList(100)
	c := w.client(endpoints, false, names...)
	for what, f := range map[string]func(){
		"Head":                           func() { c.table.State(&c.w) },
		"Head of a wildcard":             func() { all.table.State(&all.w) },
		"Replace with the same names":    func() { c.table.Replace(&c.w, false, names) },
		"Replace with the same wildcard": func() { all.table.Replace(&all.w, true, nil) },
		"Changes where there are none":   func() { _, _ = all.table.Changes(&all.w, Query{Since: all.at}) },
	} {
		limit := 0.0
		if what == "Changes where there are none" {
			limit = 1 // the version, if it is a digest
		}
		if n := testing.AllocsPerRun(100, f); n > limit {
			t.Errorf("%s: %v allocations, expected at most %v", what, n, limit)
		}
	}
}

// TestApplyCostsNoMoreInLargeTables: O(changes), counted in allocations, which do not depend on the
// machine.
func TestApplyCostsNoMoreInLargeTables(t *testing.T) {
	cost := func(n int) float64 {
		w, _ := benchWorld(t, n)
		i := 0
		updates := []Update{{Type: endpoints, Resources: []*resource.Resource{res("1", "x")}}, {Type: endpoints, Resources: []*resource.Resource{res("1", "y")}}}
		return testing.AllocsPerRun(100, func() { w.feed.Apply(updates[i%2]); i++ })
	}
	if small, large := cost(10), cost(10_000); large > small {
		t.Errorf("%v allocations with 10 resources, %v with 10,000", small, large)
	}
}

// BenchmarkReconcile: a client returns that has all it asks for, by name or by the wildcard.
func BenchmarkReconcile(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		w, all := benchWorld(b, n)
		named := w.client(endpoints, false, nameList(n)...)
		w.client(endpoints, false, nameList(n)...) // a second one of each subscription
		w.client(endpoints, true)
		w.feed.TakeDemand(true, false)
		w.feed.Apply(Update{Type: endpoints})
		var claims []resource.Held
		for _, name := range nameList(n) {
			claims = append(claims, resource.Held{Name: name, Version: res(name, "some content of a resource").Version})
		}
		for what, c := range map[string]*client{"names": named, "wildcard": all} {
			list := resource.ListHeld(claims...)
			b.Run(fmt.Sprintf("encoded/%s/%d", what, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if send, _, ok := c.table.Returned(&c.w, list); !ok || send.Len() > 0 {
						b.Fatal("something is missing")
					}
				}
			})
			b.Run(fmt.Sprintf("%s/%d", what, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if send, _, rest := c.table.Reconcile(&c.w, nil, claims, false); send.Len()+len(rest) > 0 {
						b.Fatal("something is missing")
					}
				}
			})
		}
	}
}
