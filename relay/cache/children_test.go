package cache

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/resource"
)

// withEndpoints is a cluster that refers to an endpoint set of its name.
func withEndpoints(name string) *resource.Resource {
	return resource.New(resource.Resource{Name: name, Body: []byte("cluster"), Endpoints: name})
}

// endpointSet is an endpoint set with n endpoints.
func endpointSet(t *testing.T, name string, n int) *resource.Resource {
	t.Helper()
	set := &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{Locality: &corev3.Locality{Zone: "z"}}}}
	for range n {
		set.Endpoints[0].LbEndpoints = append(set.Endpoints[0].LbEndpoints, &endpointv3.LbEndpoint{})
	}
	body, err := anypb.New(set)
	if err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return resource.New(resource.Resource{Name: name, Body: b})
}

// family is a table of clusters whose guard may hold removals back, and the table of their endpoint
// sets.
type family struct {
	*world

	clusters, endpoints *client
}

func newFamily(t *testing.T, w *world) *family {
	t.Helper()
	names := []string{"a", "b", "c", "d"}
	f := &family{world: w, clusters: w.client(clusters, true), endpoints: w.client(endpoints, false, names...)}
	for _, n := range names {
		w.apply(clusters, withEndpoints(n))
		w.apply(endpoints, endpointSet(t, n, 1))
	}
	f.clusters.ask(t, Query{})
	f.endpoints.ask(t, Query{})
	return f
}

var guarding = Config{MaxRemovalPercent: 50, RemovalHold: 5 * time.Minute}

// ways are those in which a control plane can take endpoint sets away.
var ways = map[string]struct {
	take func(t *testing.T, w *world, names ...string)
	gone bool // removed, rather than emptied
}{
	"removed": {func(_ *testing.T, w *world, names ...string) { w.remove(endpoints, names...) }, true},
	"not found": {func(_ *testing.T, w *world, names ...string) {
		for _, n := range names {
			w.refuse(endpoints, refusal(n, resource.CodeNotFound))
		}
	}, true},
	"without a body": {func(_ *testing.T, w *world, names ...string) {
		for _, n := range names {
			w.apply(endpoints, resource.New(resource.Resource{Name: n}))
		}
	}, true},
	"emptied": {func(t *testing.T, w *world, names ...string) {
		for _, n := range names {
			w.apply(endpoints, endpointSet(t, n, 0))
		}
	}, false},
}

// TestEndpointsOfHeldClusters: K16, E8: while removals of clusters are held back, their endpoints
// stay, however they are removed, and even if they are removed first; those of other clusters do
// not. They are removed after their clusters.
func TestEndpointsOfHeldClusters(t *testing.T) {
	for name, way := range ways {
		for _, first := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				inTime(t, guarding, func(t *testing.T, w *world) {
					f := newFamily(t, w)
					if first {
						way.take(t, w, "a", "b", "c", "d")
						pass(time.Second)
						f.endpoints.ask(t, Query{})
					}
					w.remove(clusters, "a", "b", "c")
					if !first {
						way.take(t, w, "a", "b", "c", "d")
					}
					pass(time.Minute)
					expect(t, f.clusters.ask(t, Query{}))
					had := func(c *client) (names []string) {
						for _, r := range c.ask(t, Query{}).Resources {
							if !r.Hollow() {
								names = append(names, r.Name)
							}
						}
						slices.Sort(names)
						return names
					}
					equal(t, "endpoints of a newcomer", had(w.client(endpoints, false, "a", "b", "c", "d")), []string{"a", "b", "c"})
					f.endpoints.ask(t, Query{})
					pass(guarding.RemovalHold)
					expect(t, f.clusters.ask(t, Query{}), "-a", "-b", "-c")
					gone := said(f.endpoints.ask(t, Query{}))
					slices.Sort(gone)
					if way.gone {
						equal(t, "told in the end", gone, []string{"-a", "-b", "-c"})
					} else {
						equal(t, "told in the end", gone, []string{"a", "b", "c"})
					}
					equal(t, "endpoints of a newcomer in the end", had(w.client(endpoints, false, "a", "b", "c", "d")), nil)
					if held := w.cache.GroupInfos()[0].HeldRemovals; held != 0 {
						t.Errorf("%d removals are still held back", held)
					}
				})
			})
		}
	}
}

// TestClustersAreBack: children that were removed with clusters that are back are removed soon,
// unless they are back, too (K16).
func TestClustersAreBack(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			inTime(t, guarding, func(t *testing.T, w *world) {
				f := newFamily(t, w)
				w.remove(clusters, "a", "b", "c")
				way.take(t, w, "a", "b")
				w.apply(clusters, withEndpoints("a"), withEndpoints("b"), withEndpoints("c"))
				pass(time.Second)
				w.apply(endpoints, endpointSet(t, "a", 1))
				expect(t, f.endpoints.ask(t, Query{}))
				pass(childPause)
				want := "-b"
				if !way.gone {
					want = "b"
				}
				expect(t, f.endpoints.ask(t, Query{}), want)
			})
		})
	}
}

// TestHoldEndsWithChildren: when the hold on parents ends, what was kept for them is removed at
// once, even if it consists of parents itself (K16).
func TestHoldEndsWithChildren(t *testing.T) {
	inTime(t, guarding, func(t *testing.T, w *world) {
		listeners := resource.TypeOf(resource.ListenerURL)
		listening := w.client(listeners, true)
		w.apply(listeners, res("l", "1"), res("m", "1"), res("n", "1"))
		f := newFamily(t, w)
		listening.ask(t, Query{})
		w.remove(listeners, "l", "m", "n")
		w.remove(clusters, "a")
		w.remove(endpoints, "a")
		pass(guarding.RemovalHold - time.Second)
		expect(t, listening.ask(t, Query{}))
		expect(t, f.clusters.ask(t, Query{}))
		pass(2 * time.Second)
		expect(t, listening.ask(t, Query{}), "-l", "-m", "-n")
		expect(t, f.clusters.ask(t, Query{}), "-a")
		expect(t, f.endpoints.ask(t, Query{}), "-a")
	})
}

// TestGrandchildren: clusters that are restored because of their listeners have their endpoints,
// though these were removed before there was any reason to hold them back (K16). So have clusters
// whose removal is held back because of listeners, or arrives while others are held back already.
func TestGrandchildren(t *testing.T) {
	listeners := resource.TypeOf(resource.ListenerURL)
	for name, steps := range map[string][]func(w *world){
		"clusters first": {
			func(w *world) { w.remove(clusters, "a") },
			func(w *world) { w.remove(endpoints, "a") },
			func(w *world) { w.remove(listeners, "l", "m", "n") },
		},
		"endpoints first": {
			func(w *world) { w.remove(endpoints, "a") },
			func(w *world) { w.remove(clusters, "a") },
			func(w *world) { w.remove(listeners, "l", "m", "n") },
		},
		"listeners first": {
			func(w *world) { w.remove(listeners, "l", "m", "n") },
			func(w *world) { w.remove(endpoints, "a") },
			func(w *world) { w.remove(clusters, "a") },
		},
		"clusters are held back": {
			func(w *world) { w.remove(clusters, "b", "c", "d") },
			func(w *world) { w.remove(endpoints, "a") },
			func(w *world) { w.remove(clusters, "a") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, guarding, func(t *testing.T, w *world) {
				listening := w.client(listeners, true)
				w.apply(listeners, res("l", "1"), res("m", "1"), res("n", "1"))
				f := newFamily(t, w)
				listening.ask(t, Query{})
				for _, step := range steps {
					step(w)
					pass(time.Second)
				}
				pass(time.Minute)
				expect(t, listening.ask(t, Query{}))
				expect(t, f.clusters.ask(t, Query{}))
				expect(t, f.endpoints.ask(t, Query{}))
				expect(t, w.client(endpoints, false, "a").ask(t, Query{}), "a")
				w.check()
			})
		})
	}
}

// TestEndpointsOfHeldListeners: K16, E8: while removals of listeners are held back, the endpoints of
// clusters stay, too, though the control plane has not removed these: it may be about to, or may not
// be able to. They go when the hold ends.
func TestEndpointsOfHeldListeners(t *testing.T) {
	listeners := resource.TypeOf(resource.ListenerURL)
	for name, way := range ways {
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, endpoints first: %t", name, first), func(t *testing.T) {
				inTime(t, guarding, func(t *testing.T, w *world) {
					listening := w.client(listeners, true)
					w.apply(listeners, res("l", "1"), res("m", "1"))
					f := newFamily(t, w)
					listening.ask(t, Query{})
					if first {
						way.take(t, w, "a", "b")
						pass(time.Second)
					}
					w.remove(listeners, "l", "m")
					pass(time.Second)
					if !first {
						way.take(t, w, "a", "b")
						pass(time.Second)
					}
					cold := w.client(endpoints, false, "a", "b").table
					has := func(n string) bool {
						cold.mu.RLock()
						defer cold.mu.RUnlock()
						e := cold.core.store.Get(n)
						return e != nil && e.Res != nil && !e.Res.Hollow()
					}
					for _, n := range []string{"a", "b"} {
						if !has(n) {
							t.Errorf("%s has no endpoints while listeners are held back", n)
						}
					}
					pass(guarding.RemovalHold)
					for _, n := range []string{"a", "b"} {
						if has(n) {
							t.Errorf("%s has endpoints after the hold", n)
						}
					}
					expect(t, f.clusters.ask(t, Query{}))
					w.check()
				})
			})
		}
	}
}

// TestEndpointsWithoutClusters: K16, E8: the same on a node whose clients ask for endpoints and not for
// clusters, which clients of other nodes have.
func TestEndpointsWithoutClusters(t *testing.T) {
	listeners := resource.TypeOf(resource.ListenerURL)
	for name, tc := range map[string]struct{ first, left bool }{"removed first": {first: true}, "removed then": {}, "clients of clusters have left": {left: true}} {
		t.Run(name, func(t *testing.T) {
			inTime(t, guarding, func(t *testing.T, w *world) {
				if tc.left {
					c := w.client(clusters, true)
					w.apply(clusters, withEndpoints("a"))
					c.table.Leave(&c.w)
					pass(time.Hour)
				}
				l, e := w.client(listeners, true), w.client(endpoints, false, "a")
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.feed.Apply(Update{Type: listeners, Full: true, Resources: res2("l")})
				w.apply(endpoints, endpointSet(t, "a", 1))
				expect(t, l.ask(t, Query{}), "l")
				expect(t, e.ask(t, Query{}), "a")
				if tc.first {
					w.remove(endpoints, "a")
				}
				w.feed.Apply(Update{Type: listeners, Full: true})
				if !tc.first {
					w.remove(endpoints, "a")
				}
				expectSees(t, e, "a")
				expectSees(t, l, "l")
				pass(guarding.RemovalHold)
				expectSees(t, e, "-a")
				expectSees(t, l)
			})
		})
	}
}

// TestReleasedStaysAway: resources that are removed when a hold ends, on this node or on the owner
// that it followed until then, are not restored when their parents are held back next (K16).
func TestReleasedStaysAway(t *testing.T) {
	ends := map[string]func(w *world, names ...string){
		"here": func(w *world, names ...string) {
			w.remove(clusters, names...)
			pass(guarding.RemovalHold + time.Second)
		},
		"on the owner": func(w *world, names ...string) {
			w.feed.Apply(Update{Type: clusters, Mirror: &Mirror{}, Removed: names})
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) { releasedStaysAway(t, end) })
	}
}

func releasedStaysAway(t *testing.T, end func(w *world, names ...string)) {
	inTime(t, guarding, func(t *testing.T, w *world) {
		listeners := resource.TypeOf(resource.ListenerURL)
		listening := w.client(listeners, true)
		w.apply(listeners, res("l", "1"))
		f := newFamily(t, w)
		listening.ask(t, Query{})
		end(w, "a", "b", "c")
		expect(t, f.clusters.ask(t, Query{}), "-a", "-b", "-c")
		w.remove(listeners, "l") // held back, because it is the whole set
		pass(time.Minute)
		expect(t, listening.ask(t, Query{}))
		expect(t, f.clusters.ask(t, Query{}))
	})
}

// TestReleaseTakesChildren: a release includes what is kept for its parents (K16).
func TestReleaseTakesChildren(t *testing.T) {
	inTime(t, Config{MaxRemovalPercent: 50}, func(t *testing.T, w *world) {
		f := newFamily(t, w)
		w.remove(clusters, "a", "b", "c")
		w.remove(endpoints, "a")
		pass(time.Hour)
		expect(t, f.endpoints.ask(t, Query{}))
		if n := w.group.Release(); n != 4 {
			t.Errorf("%d removals were released, expected 4", n)
		}
		expect(t, f.clusters.ask(t, Query{}), "-a", "-b", "-c")
		expect(t, f.endpoints.ask(t, Query{}), "-a")
	})
}
