package cache

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/resource"
)

// TestChanges: a listener is called for each way in which a table changes, without a lock of the
// cache, until it stops.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Config{MaxRemovalPercent: 10, Linger: time.Second})
		c := w.client(clusters, true)
		var calls, others atomic.Int32
		stop := w.group.OnChange(func() {
			w.cache.Active()
			w.group.Table(clusters).Digest()
			calls.Add(1)
		})
		stopOther := w.group.OnChange(func() { others.Add(1) })
		for name, change := range map[string]func(){
			"answers":    func() { w.feed.Apply(Update{Type: clusters}) },
			"resources":  func() { w.apply(clusters, res("a", "1"), res("b", "1"), res("c", "1")) },
			"several":    func() { w.apply(clusters, res("a", "2")); w.apply(clusters, res("a", "3")) },
			"absence":    func() { w.feed.Absent(clusters, []string{"x"}) },
			"an error":   func() { w.group.Table(clusters).Learn(resource.Errored{}) },
			"a released": func() { w.feed.Apply(Update{Type: clusters, Full: true}); w.group.Release() },
			"a lapsed life": func() {
				w.apply(clusters, resource.New(resource.Resource{Name: "t", Body: []byte("1"), TTL: time.Minute}))
				calls.Store(0)
				<-time.After(2 * time.Minute)
			},
		} {
			calls.Store(0)
			others.Store(0)
			change()
			synctest.Wait()
			if calls.Load() == 0 || others.Load() == 0 {
				t.Errorf("%s: expected a call", name)
			}
		}
		stop()
		calls.Store(0)
		others.Store(0)
		c.table.Leave(&c.w)
		<-time.After(3 * time.Second) // all of it expires
		synctest.Wait()
		if calls.Load() > 0 || others.Load() == 0 {
			t.Error("the end of a demand: expected a call of the listener that has not stopped")
		}
		stopOther()
		stopOther()
		others.Store(0)
		w.apply(clusters, res("a", "4"))
		if calls.Load() > 0 || others.Load() > 0 {
			t.Error("a call of a listener that has stopped")
		}
		if w.group.listeners.Load() != nil {
			t.Error("somebody is still listed")
		}
	})
}

// TestChangesCost: without a listener an update costs nothing extra, and with one no allocation.
func TestChangesCost(t *testing.T) {
	w := start(t, Config{Wake: func([]*Subscription) {}})
	w.client(clusters, true)
	signal := func() float64 { return testing.AllocsPerRun(100, w.group.changed) }
	if n := signal(); n > 0 {
		t.Errorf("%v allocations with nobody listening", n)
	}
	calls := 0
	defer w.group.OnChange(func() { calls++ })()
	if n := signal(); n > 0 || calls == 0 {
		t.Errorf("%v allocations with a listener, %d calls", n, calls)
	}
}

// TestTableDigest: tables with equal content have equal digests, however they got it, whatever
// clients ask for, and whatever versions the control plane gave (K11, D15).
func TestTableDigest(t *testing.T) {
	for name, streams := range map[string][]OriginStream{"one leg": nil, "two": {{}, {Names: true}}} {
		t.Run(name, func(t *testing.T) {
			route := func(_ *resource.Type, name string) int { return 0 }
			if streams != nil {
				route = func(_ *resource.Type, name string) int {
					if name == everything {
						return 0
					}
					return 1
				}
			}
			named := len(streams) / 2 // the stream of names
			one, two := start(t, Config{Streams: streams, Route: route}), start(t, Config{Streams: streams, Route: route})
			for _, w := range []*world{one, two} {
				w.client(clusters, true)
				w.client(clusters, false, "x")
			}
			same := func() bool {
				a, b := one.group.Table(clusters).Digest(), two.group.Table(clusters).Digest()
				return a.Digest == b.Digest
			}
			one.apply(clusters, res("a", "1"), res("b", "1"))
			if same() {
				t.Error("one has resources, the other has none")
			}
			two.apply(clusters, res("b", "0"), versioned("a", "1", "v7"))
			two.apply(clusters, res("b", "1"))
			if !same() {
				t.Error("equal content, other digests")
			}
			one.stream(named).Apply(Update{Type: clusters, Resources: []*resource.Resource{res("x", "1")}})
			if same() {
				t.Error("only one has what was asked for by name")
			}
			two.stream(named).Apply(Update{Type: clusters, Resources: []*resource.Resource{res("x", "1")}})
			if !same() {
				t.Error("equal content, other digests")
			}
			e := one.group.Table(clusters).Digest()
			if e.Wildcard == NoWildcard || e.Resources != 3 || e.Type != clusters || e.Updates != 2 || e.Generation < 3 || e.Version == "" {
				t.Errorf("%+v", e)
			}
		})
	}
}
