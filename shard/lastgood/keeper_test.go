package lastgood

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.opentelemetry.io/otel/metric/noop"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/shard/store"
)

// rig is a cache with one key, which its keeper owns; the test acts as the control plane.
type rig struct {
	t      *testing.T
	cache  *cache.Cache
	group  *cache.Group
	feed   *cache.Feed
	keeper *Keeper
	log    *logs
	stop   func() // ends the ownership
}

// watcher is a client that only subscribes.
type watcher struct{ cache.Watcher }

func (*watcher) Flush() {}

// newRig creates a rig in the bubble of a test. A client subscribes to each of types.
func newRig(t *testing.T, s Store, change func(*Config), types ...*resource.Type) *rig {
	t.Helper()
	r := &rig{t: t, log: new(logs)}
	cfg := Config{Store: s, Prefix: "tier", MaxSize: 1 << 20, Logger: r.log.logger(), Meter: noop.Meter{}}
	if change != nil {
		change(&cfg)
	}
	var err error
	if r.keeper, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	feeds := make(chan *cache.Feed)
	r.cache, err = cache.New(cache.Config{
		HeadWait: time.Hour,
		Wake:     func([]*cache.Subscription) {},
		Run: func(ctx context.Context, f *cache.Feed) {
			r.keeper.Restore(ctx, f.Group())
			feeds <- f
			end := r.keeper.Own(f.Group())
			<-ctx.Done()
			end()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.group = r.cache.Join("key", &corev3.Node{})
	r.feed = <-feeds
	for _, typ := range types {
		w := &watcher{}
		w.Client = w
		r.group.Table(typ).Replace(&w.Watcher, true, nil)
	}
	r.stop = func() {
		r.cache.Close()
		r.keeper.Close()
	}
	return r
}

// answer is the full state of a type from the control plane.
func (r *rig) answer(typ *resource.Type, resources ...*resource.Resource) {
	r.feed.Up()
	r.feed.TakeDemand(true, true)
	r.feed.Apply(cache.Update{Type: typ, Resources: resources, Full: true, Version: "1"})
}

// serves lists the names that clients of a type are served.
func (r *rig) serves(typ *resource.Type) (names []string) {
	w := &watcher{}
	w.Client = w
	t := r.group.Table(typ)
	t.Replace(&w.Watcher, true, nil)
	defer t.Leave(&w.Watcher)
	if t.State(&w.Watcher).Held {
		return nil
	}
	_, all := t.Content(&w.Watcher)
	for _, one := range all {
		names = append(names, one.Name)
	}
	slices.Sort(names)
	return names
}

// pass lets d pass, and everything happen that is then due.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}

// TestOwn: all changes within the delay are written once; an unchanged type is not written again,
// also not by the next owner; and the next process reads it.
func TestOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := newRig(t, m, nil, clusters)
		r.answer(clusters, res(clusters, "a", "1"))
		r.answer(clusters, res(clusters, "a", "2"), res(clusters, "b", "1"))
		if m.count() > 0 {
			t.Error("written before the delay")
		}
		pass(2 * time.Second)
		if m.count() != 1 {
			t.Errorf("%d writes, expected one for both changes", m.count())
		}
		pass(10 * time.Minute)
		r.stop()
		if m.count() != 1 {
			t.Errorf("%d writes, expected none without a change", m.count())
		}

		next := newRig(t, m, nil, clusters)
		defer next.stop()
		next.feed.Down(errors.New("out of reach"))
		if got := next.serves(clusters); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("the next process serves %q", got)
		}
		pass(time.Hour)
		if m.count() != 1 {
			t.Errorf("%d writes, expected none of what was restored", m.count())
		}
		next.answer(clusters, res(clusters, "a", "2"), res(clusters, "b", "1"))
		pass(time.Minute)
		if m.count() != 1 {
			t.Errorf("%d writes, expected none of what is there already", m.count())
		}
		pass(keptFor / 3)
		if m.count() != 2 {
			t.Errorf("%d writes, expected one so that it does not come to its end", m.count())
		}
	})
}

// TestHeadsFirst: no client is sent a record before it is known whether the tier heads prove that it is old. A key
// without records does not wait for them.
func TestHeadsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		read := make(chan struct{})
		var awaited atomic.Int32
		awaits := func(c *Config) {
			c.Wait = time.Second
			c.AwaitHeads = func(_ context.Context, key string) {
				if awaited.Add(1); key != "key" {
					t.Errorf("the heads of %q are awaited", key)
				}
				<-read
			}
		}
		r := newRig(t, m, awaits, clusters)
		if awaited.Load() > 0 {
			t.Error("a key without records waits for heads")
		}
		r.answer(clusters, res(clusters, "a", "1"))
		pass(2 * time.Second)
		r.stop()

		next := newRig(t, m, awaits, clusters)
		defer next.stop()
		next.feed.Down(errors.New("out of reach"))
		if got := next.serves(clusters); len(got) > 0 || awaited.Load() != 1 {
			t.Errorf("clients get %q before the heads are read, which were awaited %d times", got, awaited.Load())
		}
		if n := len(next.keeper.reading); n > 0 {
			t.Errorf("%d keys that wait for heads keep others from being read", n)
		}
		close(read)
		synctest.Wait()
		if got := next.serves(clusters); !slices.Equal(got, []string{"a"}) {
			t.Errorf("clients get %q, expected the record", got)
		}
	})
}

// TestOwnedWhileDown: what a key has when this node becomes its owner while the store is down is written
// once the store is back, although nothing changes, and the problem is known meanwhile.
func TestOwnedWhileDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory(), nil, clusters)
		defer r.stop()
		r.answer(clusters, res(clusters, "a", "1"))
		pass(time.Minute)
		down := newMemory()
		down.fail(store.ErrDown, true)
		next, err := New(Config{Store: down, Prefix: "tier", MaxSize: 1 << 20, Logger: r.log.logger(), Meter: noop.Meter{}})
		if err != nil {
			t.Fatal(err)
		}
		defer next.Close()
		defer next.Own(r.group)()
		pass(2 * time.Second)
		if why, _ := next.Problem(); why != store.ErrDown.Error() {
			t.Errorf("the problem is %q", why)
		}
		down.fail(nil, false)
		pass(30 * time.Second)
		if why, _ := next.Problem(); why != "" || down.record("key", clusters.URL) == nil {
			t.Errorf("the store is back, and the problem is %q; there is a record: %t", why, down.record("key", clusters.URL) != nil)
		}
	})
}

// TestOwnRetries: a store that was down gets the newest state when it is back, and so does one that
// was emptied, or if the result of a write is unknown.
func TestOwnRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := newRig(t, m, nil, clusters)
		defer r.stop()
		m.fail(store.ErrDown, true)
		for _, content := range []string{"1", "2", "3"} {
			r.answer(clusters, res(clusters, "a", content))
			pass(time.Minute)
		}
		if n := m.count(); n < 3 || n > 60 {
			t.Errorf("%d attempts in three minutes, expected some, with pauses", n)
		}
		if why, since := r.keeper.Problem(); why != store.ErrDown.Error() || time.Since(since) < 2*time.Minute {
			t.Errorf("the problem is %q since %s", why, since)
		}
		m.fail(nil, false)
		pass(time.Minute)
		if why, since := r.keeper.Problem(); why != "" || !since.IsZero() {
			t.Errorf("the problem is %q since %s, though the store is back", why, since)
		}
		holds := func(content string) bool {
			kept, _, err := r.keeper.open("key", m.record("key", clusters.URL))
			return err == nil && len(kept.Resources) == 1 && strings.Contains(string(kept.Resources[0].Resource.Body), content)
		}
		if !holds("3") {
			t.Error("the newest state was not written once the store was back")
		}

		m.fail(errors.New("the answer was lost"), false) // although it succeeded
		r.answer(clusters, res(clusters, "a", "4"))
		pass(5 * time.Second)
		m.fail(nil, false)
		pass(time.Minute)
		if !holds("4") {
			t.Error("not written, though nobody knew what became of it")
		}

		m.mu.Lock()
		clear(m.records)
		clear(m.marks)
		m.mu.Unlock()
		pass(3 * time.Minute)
		if !holds("4") {
			t.Error("not written again after the store was emptied")
		}
	})
}

// TestOwnBackAndForth: a record has the mark of its content, also if that changed while the write
// was waiting: otherwise content that returns to an earlier state would count as written.
func TestOwnBackAndForth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := newRig(t, m, nil, clusters)
		defer r.stop()
		for range writers { // others are writing
			r.keeper.writing <- struct{}{}
		}
		r.answer(clusters, res(clusters, "a", "1"))
		pass(5 * time.Second)
		r.answer(clusters, res(clusters, "a", "2"))
		for range writers {
			<-r.keeper.writing
		}
		synctest.Wait()
		r.answer(clusters, res(clusters, "a", "1"))
		pass(10 * time.Minute)
		kept, _, err := r.keeper.open("key", m.record("key", clusters.URL))
		if err != nil || len(kept.Resources) != 1 || !kept.Resources[0].Resource.SameContent(res(clusters, "a", "1")) {
			t.Errorf("%d resources are kept, %v, or what was before", len(kept.Resources), err)
		}
	})
}

// TestOwnEnds: pending changes are written when the ownership ends.
func TestOwnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := newRig(t, m, nil, clusters)
		r.answer(clusters, res(clusters, "a", "1"))
		r.stop()
		if m.record("key", clusters.URL) == nil {
			t.Error("the last change was lost")
		}
	})
}

// TestOwnRotation: with a new key everything is written again, so that the old key can be removed.
func TestOwnRotation(t *testing.T) {
	path := keysFile(t, newKey("one"))
	keys := openKeys(t, path)
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := newRig(t, m, func(c *Config) { c.Keys = keys }, secrets)
		defer r.stop()
		r.answer(secrets, res(secrets, "s", "CANARY"))
		pass(5 * time.Second)
		sealed := m.record("key", secrets.URL)
		if sealed == nil || strings.Contains(string(sealed), "CANARY") {
			t.Fatal("not kept, or not encrypted")
		}
		two := newKey("two")
		writeFile(t, path, two)
		pass(5 * time.Minute)
		if id, _, _, _ := splitHeader(m.record("key", secrets.URL)); id != "two" {
			t.Errorf("encrypted with %q", id)
		}
	})
}

// TestUnusable: a record that cannot be used is logged and not served, and the others are served.
func TestUnusable(t *testing.T) {
	one, two := openKeys(t, keysFile(t, newKey("one"))), openKeys(t, keysFile(t, newKey("one")))
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := newRig(t, m, func(c *Config) { c.Keys = one }, clusters, secrets)
		r.answer(clusters, res(clusters, "a", "1"))
		r.answer(secrets, res(secrets, "s", "1"))
		r.stop()

		wrong := newRig(t, m, func(c *Config) { c.Keys = two }, clusters)
		wrong.feed.Down(errors.New("out of reach"))
		if got := wrong.serves(clusters); len(got) > 0 {
			t.Errorf("serves %q with another key", got)
		}
		if wrong.log.count("unusable") == 0 || !strings.Contains(wrong.log.String(), clusters.URL) {
			t.Errorf("the log does not say so:\n%s", wrong.log)
		}
		wrong.stop()

		m.mu.Lock()
		m.records["key"][clusters.URL] = m.records["key"][clusters.URL][:50]
		m.mu.Unlock()
		right := newRig(t, m, func(c *Config) { c.Keys = one }, clusters, secrets)
		defer right.stop()
		right.feed.Down(errors.New("out of reach"))
		if got := right.serves(clusters); len(got) > 0 {
			t.Errorf("serves %q of a record that is cut off", got)
		}
		if got := right.serves(secrets); len(got) != 1 {
			t.Errorf("serves %q of a record that is whole", got)
		}
	})
}

// TestOld: a record that was not written for 30 days is not served.
func TestOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := newRig(t, m, nil, clusters)
		r.answer(clusters, res(clusters, "a", "1"))
		r.stop()
		pass(keptFor + time.Second)
		next := newRig(t, m, nil, clusters)
		defer next.stop()
		next.feed.Down(errors.New("out of reach"))
		if got := next.serves(clusters); len(got) > 0 {
			t.Errorf("serves %q", got)
		}
	})
}

// TestOfTheFuture: K12: a record that was made by a clock which was ahead, and has been set right since,
// proves nothing of when its content was current.
func TestOfTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := time.Hour
		m := newMemory()
		r := newRig(t, m, func(c *Config) { c.Clock = func() time.Time { return time.Now().Add(ahead).Round(0) } }, clusters)
		defer r.stop()
		r.answer(clusters, res(clusters, "a", "1"))
		pass(time.Minute)
		for set, known := range map[time.Duration]bool{time.Hour: true, 0: false} {
			ahead = set
			all, err := r.keeper.Read(t.Context(), string(r.group.Key))
			if err != nil || len(all) != 1 || all[0].AsOf.IsZero() == known {
				t.Errorf("%s ahead: %+v, %v", set, all, err)
			}
		}
	})
}

// slow is a store that is slow to read.
type slow struct {
	*memory
	by time.Duration
}

func (s slow) Load(ctx context.Context, key string, take func([]byte)) error {
	select {
	case <-time.After(s.by):
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.memory.Load(ctx, key, take)
}

// TestSlowStore: a slow store delays the control plane for the wait at most, and a record that
// arrives late is still served; so is one that could not be read at first.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := newRig(t, m, nil, clusters)
		r.answer(clusters, res(clusters, "a", "1"))
		r.stop()

		began := time.Now()
		next := newRig(t, slow{m, 10 * time.Second}, func(c *Config) { c.Wait = 300 * time.Millisecond }, clusters)
		if took := time.Since(began); took != 300*time.Millisecond {
			t.Errorf("the origin is asked after %v", took)
		}
		next.feed.Down(errors.New("out of reach"))
		if got := next.serves(clusters); len(got) > 0 {
			t.Errorf("serves %q before anything was read", got)
		}
		pass(10 * time.Second)
		if got := next.serves(clusters); !slices.Equal(got, []string{"a"}) {
			t.Errorf("serves %q", got)
		}
		next.stop()

		m.fail(store.ErrDown, true)
		down := newRig(t, m, nil, clusters)
		defer down.stop()
		down.feed.Down(errors.New("out of reach"))
		pass(10 * time.Second)
		m.fail(nil, false)
		pass(time.Minute)
		if got := down.serves(clusters); !slices.Equal(got, []string{"a"}) {
			t.Errorf("serves %q after the store is back", got)
		}
	})
}
