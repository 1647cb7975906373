package cache

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

// TestDemandWhileNamesChange: the demand is taken in steps, between which clients change their
// interest, and names expire. A response answers only what the control plane was asked for before
// (K13), and in the end it has been asked for exactly the demand, even on a new stream (C8, C9).
func TestDemandWhileNamesChange(t *testing.T) {
	for _, delta := range []bool{true, false} {
		t.Run(fmt.Sprintf("delta %t", delta), func(t *testing.T) {
			between := 0
			for seed := range uint64(300) {
				between += demandChanges(t, delta, seed)
			}
			if between < 300 {
				t.Errorf("others have changed something only %d times", between)
			}
		})
	}
}

// demandChanges is one run, and returns how often something has changed between two steps.
func demandChanges(t *testing.T, delta bool, seed uint64) (between int) {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test has to be repeatable
	w := newWorld(t, Config{Linger: time.Hour, Wake: func([]*Subscription) {}})
	defer w.close()
	w.cache.step = 1 + random.IntN(3)
	table := w.group.Table(endpoints)
	watchers := make([]Watcher, 3)
	edit := func() {
		e := Edit{}
		for range 1 + random.IntN(6) {
			if n := fmt.Sprint(random.IntN(12)); random.IntN(2) == 0 {
				e.Add = append(e.Add, n)
			} else {
				e.Remove = append(e.Remove, n)
			}
		}
		table.Edit(&watchers[random.IntN(len(watchers))], e)
		if random.IntN(3) == 0 {
			table.expire(time.Now().Add(2*time.Hour), make(map[*Subscription]struct{}))
		}
	}
	var change func(held bool)
	change = func(held bool) {
		if held || random.IntN(4) > 0 {
			return
		}
		table.mu.watch = nil // others release the lock, too
		edit()
		between++
		table.mu.watch = change
	}
	origin := asking{t: t, feed: w.feed, delta: delta, holds: make(map[string]bool)}
	for range 6 {
		edit()
		table.mu.watch = change
		origin.ask(random.IntN(3) == 0)
		table.mu.watch = nil
		w.feed.Apply(Update{Type: endpoints, Differences: delta})
		for i := range watchers {
			if s := watchers[i].sub; s != nil && table.State(&watchers[i]).Answer == Answered {
				for n := range s.names {
					if !origin.holds[n] {
						t.Fatalf("seed %d: %q counts as answered, but was not asked for", seed, n)
					}
				}
			}
		}
	}
	for i := 0; origin.ask(false); i++ {
		if i > 2 {
			t.Fatalf("seed %d: there is always more to ask for", seed)
		}
	}
	want := table.wanted()
	if got := slices.Sorted(maps.Keys(origin.holds)); !slices.Equal(got, want) {
		t.Fatalf("seed %d: the control plane was asked for %v, expected %v", seed, got, want)
	}
	return between
}

// asking is a control plane that is asked for one type.
type asking struct {
	t     *testing.T
	feed  *Feed
	delta bool
	holds map[string]bool // names that it was asked for
}

// ask takes the demand, all of it on a new stream, and reports whether there was any.
func (a *asking) ask(all bool) bool {
	a.t.Helper()
	if all {
		clear(a.holds)
	}
	demands := a.feed.TakeDemand(all, !a.delta)
	for _, d := range demands {
		for _, n := range d.Subscribe {
			if _, both := slices.BinarySearch(d.Unsubscribe, n); both {
				a.t.Errorf("%q is subscribed and unsubscribed at once", n)
			}
		}
		if !a.delta {
			clear(a.holds)
			d.Subscribe, d.Unsubscribe, d.Again = d.Names, nil, nil
		}
		for _, n := range slices.Concat(d.Again, d.Unsubscribe) {
			delete(a.holds, n)
		}
		for _, n := range d.Subscribe {
			a.holds[n] = true
		}
	}
	return len(demands) > 0
}

// TestWildcardWhileItsMembersGo: a client that joins the wildcard while its former members are
// dropped in steps sees none of them: they may be old, and are not complete.
func TestWildcardWhileItsMembersGo(t *testing.T) {
	w := start(t, Config{Linger: time.Hour})
	w.cache.step = 1
	c := w.client(clusters, true)
	var rs []*resource.Resource
	for i := range 10 {
		rs = append(rs, res(fmt.Sprint(i), "content"))
	}
	w.feed.TakeDemand(true, true)
	w.feed.Apply(Update{Type: clusters, Resources: rs, Full: true})
	c.table.Leave(&c.w)
	c.table.mu.watch = func(held bool) {
		if held || c.table.core.leaving == notLeaving || c.table.known() > 5 {
			return
		}
		c.table.mu.watch = nil
		next := w.client(clusters, true)
		if got := next.ask(t, Query{}); len(got.Resources) > 0 || got.Known {
			t.Errorf("%d resources, known %t, expected none yet", len(got.Resources), got.Known)
		}
	}
	c.table.expire(time.Now().Add(2*time.Hour), make(map[*Subscription]struct{}))
	if c.table.mu.watch != nil {
		t.Fatal("members do not go in steps")
	}
}
