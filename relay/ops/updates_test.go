package ops

import (
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/cache"
)

// progress is what a node tells of an update that came so many seconds ago.
func progress(node, key string, age float64, clients, acked int, took ...float64) Progress {
	return Progress{
		Key: key, URL: "u", Name: "CDS", Node: node, At: time.Unix(1000, 0).Add(-time.Duration(age * 1e9)), Age: age, Cause: cache.CauseOwner,
		Reached: Reached{Clients: clients, Acked: acked, Waiting: clients - acked}, Took: took,
	}
}

// TestUpdates holds that what several nodes have of one update is put together, by how
// long ago it came and not by their clocks, and that older updates stay apart.
func TestUpdates(t *testing.T) {
	b := progress("b", "k", .9, 100, 100, 2, 4, 6) // each of them stands for 33 clients
	b.At = b.At.Add(-time.Hour)                    // its clock is wrong
	a := progress("a", "k", 1, 2, 1, 1)
	a.Cause, a.Version = cache.CauseOrigin, "7"
	got := Updates([][]Progress{
		{progress("a", "other", 3, 1, 1, .5), a, progress("a", "k", 2.5, 2, 2)},
		{b, progress("b", "k", 60, 5, 5)},
	})
	var keys []string
	for _, u := range got {
		keys = append(keys, u.Key)
	}
	if !slices.Equal(keys, []string{"k", "k", "other", "k"}) {
		t.Fatalf("updates of %v", keys)
	}
	u := got[0]
	if u.Version != "7" || !u.At.Equal(a.At) || u.Clients != 102 || u.Acked != 101 || u.Waiting != 1 {
		t.Errorf("the newest is %+v", u)
	}
	if u.P50 != 4 || u.P99 != 6 || u.Last != 6 {
		t.Errorf("p50 %v, p99 %v, last %v", u.P50, u.P99, u.Last)
	}
	if len(u.Nodes) != 2 || u.Nodes[0].Node != "a" || u.Nodes[1].Acked != 100 {
		t.Errorf("nodes %+v", u.Nodes)
	}
	parts := Updates([][]Progress{{progress("a", "k", 1, 6, 4), progress("a", "k", 1, 6, 6)}, {progress("b", "k", 1, 3, 3)}, {progress("c", "k", 1.1, 3, 3)}})
	if len(parts) != 2 || len(parts[0].Nodes) != 3 || len(parts[1].Nodes) != 1 {
		t.Errorf("an update that came to a node in two parts: %+v", parts)
	}
	if got := Updates(nil); got == nil || len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// TestEvenly holds that the first and the last are among those that are chosen.
func TestEvenly(t *testing.T) {
	var all []float64
	for i := range 1000 {
		all = append(all, float64(i))
	}
	got := evenly(all, 101)
	if len(got) != 101 || got[0] != 0 || got[100] != 999 || got[50] != 499 {
		t.Errorf("chosen: %v", got)
	}
	if got := evenly(all[:3], 101); len(got) != 3 {
		t.Errorf("of few: %v", got)
	}
}
