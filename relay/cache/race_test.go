package cache

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
)

// TestConcurrency: concurrent writers, editors, readers and observers, over keys that are joined
// and left. Under -race it looks for races, and at the end everything has to add up, and a client
// that reads to the end has the last state.
func TestConcurrency(t *testing.T) {
	const keys, rounds = 3, 300
	var woken atomic.Int64
	w := newWorld(t, Config{
		Linger: time.Nanosecond, IdleBytes: 1 << 20, Tombstones: 16,
		Wake: func(subs []*Subscription) {
			for _, s := range subs {
				woken.Add(int64(len(s.Watchers(nil))))
			}
		},
	})
	w.cache.step = 1
	w.feeds = make(chan *Feed, 1<<16)
	name := func() string { return fmt.Sprint(rand.IntN(20)) }
	var all, writers sync.WaitGroup
	stop := make(chan struct{})
	goOn := func() bool {
		select {
		case <-stop:
			return false
		default:
			return true
		}
	}

	writers.Go(func() {
		for i := range keys * rounds {
			u := Update{Type: clusters, Full: i%7 == 0, Kind: [...]UpdateKind{Partial, Answer, Answer}[i%3], Version: fmt.Sprint(i)}
			for _, n := range rand.Perm(20)[:3] { // different names
				u.Resources = append(u.Resources, aliased(fmt.Sprint(n), fmt.Sprint(rand.IntN(5)), "alias"+name()))
			}
			if !u.Full {
				u.Removed = []string{"r" + name()}
			}
			w.feed.Apply(u)
			w.feed.Absent(clusters, []string{name()})
			w.feed.TakeDemand(i%50 == 0, i%2 == 0)
		}
	})
	for range 4 { // clients of the key that stays
		writers.Go(func() {
			c := &client{table: w.group.Table(clusters), at: Start}
			for i := range rounds {
				switch i % 5 {
				case 0:
					c.table.Replace(&c.w, i%2 == 0, []string{name(), name()})
				case 1:
					c.table.Edit(&c.w, Edit{Add: []string{name(), "alias" + name()}, Remove: []string{name()}})
				case 4:
					c.table.Leave(&c.w)
					c.at = Start
				}
				h := c.head()
				got, err := c.table.Changes(&c.w, Query{Since: c.at, Scope: []Scope{FullState, News}[i%2], Force: NewNames([]string{name()})})
				if c.at = got.To; err != nil {
					c.at = Start
				}
				if h.Gen > 0 && h.Subscription != 0 && !c.table.Reaches(h.Gen) {
					t.Errorf("the head %d is beyond the table", h.Gen)
				}
				c.table.Reconcile(&c.w, nil, []resource.Held{{Name: name(), Version: "x"}}, false)
				c.table.Gone(&c.w, nil, []resource.Held{{Name: name(), Version: "x"}})
			}
			c.table.Leave(&c.w)
		})
	}
	for k := range keys { // keys that are joined and left
		writers.Go(func() {
			key := aggregation.Key(fmt.Sprint(k % 2))
			for range rounds {
				g := w.cache.Join(key, nil)
				c := &client{table: g.Table(endpoints)}
				c.table.Replace(&c.w, true, []string{name()})
				c.table.Leave(&c.w)
				w.cache.Leave(g)
			}
		})
	}
	all.Go(func() { // feeds that outlive their keys
		for goOn() {
			select {
			case f := <-w.feeds:
				f.Up()
				f.TakeDemand(true, true)
				f.Apply(Update{Type: endpoints, Resources: []*resource.Resource{res(name(), name())}})
				f.Held(endpoints)
				f.Missing(endpoints, []string{name()})
				f.Waiting(nil)
				f.Down(ErrClosed)
			default:
			}
		}
	})
	all.Go(func() { // observers
		for goOn() {
			w.cache.GroupInfos()
			for _, wrong := range w.cache.Check() {
				t.Error(wrong)
				return
			}
		}
	})
	writers.Wait()
	close(stop)
	all.Wait()

	c := w.client(clusters, true)
	w.feed.Apply(Update{Type: clusters, Full: true, Resources: []*resource.Resource{res("last", "1")}})
	expect(t, c.ask(t, Query{Scope: FullState}), "last")
	w.close()
	if woken.Load() == 0 {
		t.Error("nobody was ever woken")
	}
}
