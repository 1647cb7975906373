package cache

import (
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/resource"
)

// signalled receives a signal, if there is one.
func signalled(news <-chan struct{}) bool {
	select {
	case <-news:
		return true
	default:
		return false
	}
}

// TestChanges: a listener is signaled for each way in which a table changes, once for everything
// since, and nothing waits for a listener.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Config{MaxRemovalPercent: 10, Linger: time.Second})
		c := w.client(clusters, true)
		news, stop := w.group.Changes()
		other, stopOther := w.group.Changes()
		for name, change := range map[string]func(){
			"answers":    func() { w.feed.Apply(Update{Type: clusters}) },
			"resources":  func() { w.apply(clusters, res("a", "1"), res("b", "1"), res("c", "1")) },
			"several":    func() { w.apply(clusters, res("a", "2")); w.apply(clusters, res("a", "3")) },
			"absence":    func() { w.feed.Absent(clusters, []string{"x"}) },
			"a released": func() { w.feed.Apply(Update{Type: clusters, Full: true}); w.group.Release() },
			"a lapsed life": func() {
				w.apply(clusters, resource.New(resource.Resource{Name: "t", Body: []byte("1"), TTL: time.Minute}))
				signalled(news)
				<-time.After(2 * time.Minute)
			},
		} {
			change()
			synctest.Wait()
			if !signalled(news) || signalled(news) {
				t.Errorf("%s: expected one signal", name)
			}
		}
		stop()
		signalled(other)
		c.table.Leave(&c.w)
		<-time.After(3 * time.Second) // all of it expires
		synctest.Wait()
		if signalled(news) || !signalled(other) {
			t.Error("the end of a demand: expected a signal for who still listens")
		}
		stopOther()
		stopOther()
		w.apply(clusters, res("a", "4"))
		if signalled(news) || signalled(other) {
			t.Error("a signal for who listens no more")
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
	_, stop := w.group.Changes()
	defer stop()
	if n := signal(); n > 0 {
		t.Errorf("%v allocations with a listener", n)
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
			if !e.Wildcard || e.Resources != 3 || e.Type != clusters || e.Updates != 2 || e.Generation < 3 || e.Version == "" {
				t.Errorf("%+v", e)
			}
		})
	}
}
