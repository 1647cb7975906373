package cache

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"xdsrelay/relay/resource"
)

// crowd is a world with a client whose many names fill the bound and do not exist.
func crowd(tb testing.TB, many int, routed func(name string)) (*world, *Table) {
	tb.Helper()
	names := make([]string, many)
	size := 0
	for i := range names {
		names[i] = fmt.Sprintf("huge-%07d", i)
		size += len(names[i]) + nameOverhead
	}
	w := newWorld(tb, Config{Streams: []OriginStream{{MaxNames: size + len("a") + nameOverhead}}, Route: func(_ *resource.Type, name string) int {
		routed(name)
		return 0
	}})
	tb.Cleanup(w.close)
	table := w.group.Table(endpoints)
	if done := table.Edit(&Watcher{}, Edit{Add: names}); done.Over != nil {
		tb.Fatalf("%+v", done.Over)
	}
	return w, table
}

// TestOthersWhileNamesGiveWay: while tens of thousands of names of a client yield to those of
// another, other clients of the same key and type get their changes.
func TestOthersWhileNamesGiveWay(t *testing.T) {
	const many = 40_000
	var armed atomic.Bool
	var dropped atomic.Int64
	began := make(chan struct{})
	w, table := crowd(t, many, func(name string) {
		if armed.Load() && strings.HasPrefix(name, "huge-") && dropped.Add(1) == 1 {
			close(began)
		}
	})
	var other, few Watcher
	table.Edit(&other, Edit{Add: []string{"a"}})
	armed.Store(true)
	edited := make(chan Edited)
	go func() { edited <- table.Edit(&few, Edit{Add: []string{"few"}}) }()
	<-began
	got, at := 0, Start
	for i := 0; dropped.Load() < many/2; i++ {
		w.apply(endpoints, res("a", fmt.Sprint(i)))
		c, err := table.Changes(&other, Query{Since: at})
		if err != nil || len(c.Resources) != 1 {
			t.Fatalf("change %d: %d resources, %v", i, len(c.Resources), err)
		}
		at = c.To
		if dropped.Load() < many/2 {
			got++
		}
	}
	if done := <-edited; done.Over != nil || len(done.Added) != 1 {
		t.Errorf("the client with few names: %+v", done)
	}
	if got == 0 {
		t.Error("another client gets no change before all names have given way")
	}
}

// BenchmarkYield is the time until 200,000 names of a client have made room for another.
func BenchmarkYield(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		_, table := crowd(b, 200_000, func(string) {})
		b.StartTimer()
		if done := table.Edit(&Watcher{}, Edit{Add: []string{"few", "fewer"}}); done.Over != nil {
			b.Fatal(done.Over)
		}
	}
}
