package lastgood

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.opentelemetry.io/otel/metric/noop"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// stuck is a store whose calls for some keys wait for their contexts.
type stuck struct {
	*memory
	on    func(key string) bool
	calls atomic.Int32 // that wait
	most  atomic.Int32 // that have waited at the same time
}

func (s *stuck) wait(ctx context.Context, key string) error {
	if !s.on(key) {
		return nil
	}
	n := s.calls.Add(1)
	defer s.calls.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *stuck) Save(ctx context.Context, key, url, mark string, sealed []byte) error {
	if err := s.wait(ctx, key); err != nil {
		return err
	}
	return s.memory.Save(ctx, key, url, mark, sealed)
}

func (s *stuck) Marks(ctx context.Context, key string) (map[string]Mark, error) {
	if err := s.wait(ctx, key); err != nil {
		return nil, err
	}
	return s.memory.Marks(ctx, key)
}

// ownedKeys is a keeper that owns keys with content.
func ownedKeys(t *testing.T, s Store, keys int) (k *Keeper, groups []*cache.Group, ends []func()) {
	t.Helper()
	k, err := New(Config{Store: s, Prefix: "tier", MaxSize: 1 << 20, Logger: new(logs).logger(), Meter: noop.Meter{}})
	if err != nil {
		t.Fatal(err)
	}
	feeds := make(chan *cache.Feed)
	c, err := cache.New(cache.Config{
		Wake: func([]*cache.Subscription) {},
		Run:  func(ctx context.Context, f *cache.Feed) { feeds <- f; <-ctx.Done() },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		g := c.Join(aggregation.Key(fmt.Sprint("key", i)), &corev3.Node{})
		f := <-feeds
		w := &watcher{}
		w.Client = w
		g.Table(clusters).Replace(&w.Watcher, true, nil)
		ends = append(ends, k.Own(g))
		groups = append(groups, g)
		f.Up()
		f.TakeDemand(true, true)
		f.Apply(cache.Update{Type: clusters, Resources: []*resource.Resource{res(clusters, "a", "1")}, Full: true, Version: "1"})
	}
	t.Cleanup(func() {
		c.Close()
		k.Close()
	})
	return k, groups, ends
}

// TestSlowKey: keys for which the store does not answer do not delay the others.
func TestSlowKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, slow = 200, 20
		s := &stuck{memory: newMemory()}
		s.on = func(key string) bool {
			var n int
			_, _ = fmt.Sscanf(key, "key%d", &n)
			return n < slow
		}
		_, _, ends := ownedKeys(t, s, keys)
		pass(5 * time.Second)
		if n := s.count(); n != keys-slow {
			t.Errorf("%d keys are written, expected all but %d of %d", n, slow, keys)
		}
		for _, end := range ends {
			go end()
		}
		pass(5 * time.Second)
	})
}

// TestEndTogether: many keys end at the same time, within a second, although the store does not
// answer; and no more turns run at a time than there may be.
func TestEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 1000
		s := &stuck{memory: newMemory(), on: func(string) bool { return true }}
		k, _, ends := ownedKeys(t, s, keys)
		pass(10 * time.Minute)
		if n := s.most.Load(); n != atOnce {
			t.Errorf("%d calls at a time, expected %d", n, atOnce)
		}
		began := time.Now()
		var all sync.WaitGroup
		for _, end := range ends {
			all.Go(end)
		}
		all.Wait()
		if took := time.Since(began); took > finishTime {
			t.Errorf("%d keys end in %v, expected %v at most", keys, took, finishTime)
		}
		pass(10 * time.Minute)
		k.schedule.mu.Lock()
		defer k.schedule.mu.Unlock()
		if len(k.schedule.waiting) > 0 || k.schedule.turns > 0 || !k.schedule.at.IsZero() {
			t.Errorf("%d keys wait, %d turns run, the next one begins %v; expected none", len(k.schedule.waiting), k.schedule.turns, k.schedule.at)
		}
	})
}

// TestEndAlone: a key that has ended is not written any more, whatever changes.
func TestEndAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		_, groups, ends := ownedKeys(t, m, 2)
		ends[0]()
		groups[0].Table(clusters).Learn(resource.Errored{Names: []string{"b"}})
		pass(time.Hour)
		if n := m.count(); n != 2 {
			t.Errorf("%d writes, expected one of each key", n)
		}
		ends[1]()
	})
}
