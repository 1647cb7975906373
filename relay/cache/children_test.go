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
						e := cold.store.Get(n)
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

// TestReleasedStaysAway: resources that are removed when a hold ends, on this node or on the owner
// that it followed until then, are not restored when their parents are held back next (K16).
func TestReleasedStaysAway(t *testing.T) {
	ends := map[string]func(w *world, names ...string){
		"here": func(w *world, names ...string) {
			w.remove(clusters, names...)
			pass(guarding.RemovalHold + time.Second)
		},
		"on the owner": func(w *world, names ...string) {
			w.feed.Apply(Update{Type: clusters, Mirror: true, Removed: names})
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

// TestLongLost: resources that were removed long before their parents stay away, and are not
// remembered.
func TestLongLost(t *testing.T) {
	inTime(t, guarding, func(t *testing.T, w *world) {
		f := newFamily(t, w)
		w.remove(endpoints, "a")
		expect(t, f.endpoints.ask(t, Query{}), "-a")
		pass(justBefore)
		f.endpoints.table.mu.Lock()
		if lost := f.endpoints.table.lost; lost != nil {
			t.Errorf("%v is remembered", lost)
		}
		f.endpoints.table.mu.Unlock()
		w.remove(clusters, "a", "b", "c")
		pass(time.Minute)
		expect(t, f.endpoints.ask(t, Query{}))
	})
}

// TestOldChildrenStayAway: K16, K12: a restored resource that is missing when the control plane
// answers was not removed just before its parents: clients may have had newer content of that name.
// It is kept if the parents that are held back were restored with it.
func TestOldChildrenStayAway(t *testing.T) {
	for name, tc := range map[string]struct {
		asOf    time.Duration
		parents []string // those of these that are in the control plane's first answer
		want    []string
	}{
		"restored from long ago":                {-time.Hour, []string{"a", "b"}, []string{"-a", "-b"}},
		"restored from just before":             {-time.Second, []string{"a", "b"}, []string{"a", "b"}},
		"parents of long ago go with them":      {-time.Hour, nil, []string{"a", "b"}},
		"one parent of long ago goes with them": {-time.Hour, []string{"a"}, []string{"-a", "-b"}},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, guarding, func(t *testing.T, w *world) {
				asOf := time.Now().Add(tc.asOf)
				w.group.RestoreFrom(holds(clusters, true, asOf, withEndpoints("a"), withEndpoints("b")))
				w.group.RestoreFrom(holds(endpoints, false, asOf, endpointSet(t, "a", 1), endpointSet(t, "b", 1)))
				w.client(clusters, true)
				c := w.client(endpoints, false, "a", "b")
				w.feed.TakeDemand(true, true)
				w.remove(endpoints, "a", "b")
				var parents []*resource.Resource
				for _, n := range tc.parents {
					parents = append(parents, withEndpoints(n))
				}
				all := func(rs ...*resource.Resource) { w.feed.Apply(Update{Type: clusters, Resources: rs, Full: true}) }
				all(parents...)
				pass(time.Second)
				if len(parents) > 0 {
					all()
				}
				pass(time.Second)
				expectSees(t, c, tc.want...)
			})
		})
	}
}

// TestChildrenOfAnOutage: K16, K12: children that were restored while the control plane was away are
// as old as parents that this node has kept since. Parents that were removed by its first answer and
// are held back then have their children, unless these were restored from long before.
func TestChildrenOfAnOutage(t *testing.T) {
	listeners := resource.TypeOf(resource.ListenerURL)
	for name, tc := range map[string]struct {
		before time.Duration // how long before the outage the children were current
		want   []string
	}{
		"as old as their parents": {0, []string{"a"}},
		"a little older":          {justBefore - time.Second, []string{"a"}},
		"much older":              {time.Hour, []string{"-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, guarding, func(t *testing.T, w *world) {
				w.client(listeners, true)
				c := w.client(clusters, true)
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.apply(listeners, res("l", "1"), res("m", "1"))
				w.apply(clusters, withEndpoints("a"), withEndpoints("b"), withEndpoints("c"), withEndpoints("d"))
				pass(time.Minute)
				down := time.Now()
				w.feed.Down(errOut)
				pass(2 * time.Minute)
				w.group.RestoreFrom(holds(endpoints, false, down.Add(-tc.before), endpointSet(t, "a", 1)))
				e := w.client(endpoints, false, "a")
				expect(t, e.ask(t, Query{}), "a")
				c.ask(t, Query{})

				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.remove(clusters, "a")
				w.remove(endpoints, "a")
				w.remove(listeners, "l", "m")
				pass(time.Second)
				expect(t, c.ask(t, Query{}))
				expectSees(t, e, tc.want...)
				w.check()
			})
		})
	}
}

// TestChildrenHeldElsewhere: K16, K12: a hold ends while the process is stopped, and another node, whose
// hold began later, still has the clusters and their endpoints. The process takes both over when it
// runs again: clusters without their endpoints are of no use. It keeps both when the control plane
// answers once more that it has neither.
func TestChildrenHeldElsewhere(t *testing.T) {
	inTime(t, guarding, func(t *testing.T, w *world) {
		names := []string{"a", "b", "c", "d"}
		f := newFamily(t, w)
		w.feed.TakeDemand(true, true)
		w.feed.Up()
		w.remove(endpoints, names...)
		w.remove(clusters, names...)
		expectSees(t, f.clusters, names...)
		expectSees(t, f.endpoints, names...)

		began := time.Now()
		pass(guarding.RemovalHold)
		w.cache.Slept(began)
		expectSees(t, f.clusters)
		expectSees(t, f.endpoints, "-a", "-b", "-c", "-d")
		parents, children := holds(clusters, true, time.Now()), holds(endpoints, false, time.Now())
		for _, n := range names {
			parents.Resources = append(parents.Resources, SnapshotResource{Resource: withEndpoints(n), Streams: 1})
			children.Resources = append(children.Resources, SnapshotResource{Resource: endpointSet(t, n, 1), Streams: 1})
		}
		parents.HeldBack, children.HeldBack = true, true
		w.group.Renew([]Snapshot{parents, children})
		expectSees(t, f.clusters, names...)
		expectSees(t, f.endpoints, names...)

		w.feed.Down(errOut)
		w.feed.TakeDemand(true, true)
		w.feed.Up()
		w.remove(endpoints, names...)
		pass(time.Second)
		w.remove(clusters, names...)
		expectSees(t, f.clusters, names...)
		expectSees(t, f.endpoints, names...)
		w.check()
	})
}

// TestClaimsOfOldChildren: K16, E8, B37: a client that returns with a cluster that the control
// plane no longer had when it answered, and with its endpoints, keeps neither while the listeners
// are held back.
func TestClaimsOfOldChildren(t *testing.T) {
	listeners := resource.TypeOf(resource.ListenerURL)
	inTime(t, guarding, func(t *testing.T, w *world) {
		asOf := time.Now().Add(-time.Hour)
		w.group.RestoreFrom(holds(listeners, true, asOf, res("l", "1"), res("m", "1")))
		w.group.RestoreFrom(holds(clusters, true, asOf, withEndpoints("a"), withEndpoints("b"), withEndpoints("c")))
		w.group.RestoreFrom(holds(endpoints, false, asOf, endpointSet(t, "a", 1), endpointSet(t, "b", 1)))
		w.client(listeners, true)
		c := w.client(clusters, true)
		e := w.client(endpoints, false, "a", "b")
		w.feed.TakeDemand(true, true)
		all := func(typ *resource.Type, rs ...*resource.Resource) {
			w.feed.Apply(Update{Type: typ, Resources: rs, Full: true})
		}
		all(listeners, res("l", "1"), res("m", "1"))
		all(clusters, withEndpoints("a"), withEndpoints("c"))
		w.apply(endpoints, endpointSet(t, "a", 1))
		w.remove(endpoints, "b")
		pass(time.Second)
		all(listeners)
		for typ, of := range map[string]*client{"clusters": c, "endpoints": e} {
			sent, rest := of.reconcile(t, []resource.Held{{Name: "b", Version: "1"}})
			gone, _, _ := of.table.Gone(&of.w, nil, rest)
			if !slices.Contains(sent, "-b") && gone == nil {
				t.Errorf("%s: b stays, expected neither it nor its endpoints to stay: %v, %v", typ, sent, rest)
			}
		}
	})
}

// TestClaimsOfChildren: K16, B37: a node that asks for endpoints only after the control plane has
// lost them does not remove them from a client that returns with them, as long as it holds their
// clusters back. When these are removed, or are back without endpoints, it does.
func TestClaimsOfChildren(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(w *world)
		open bool
	}{
		"clusters are held back": {func(*world) { pass(guarding.RemovalHold - time.Minute) }, true},
		"clusters go":            {func(*world) { pass(guarding.RemovalHold) }, false},
		"clusters are back without endpoints": {func(w *world) {
			w.apply(clusters, withEndpoints("a"), withEndpoints("b"), withEndpoints("c"))
			pass(childPause)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, guarding, func(t *testing.T, w *world) {
				w.client(clusters, true)
				w.apply(clusters, withEndpoints("a"), withEndpoints("b"), withEndpoints("c"), withEndpoints("d"))
				w.remove(clusters, "a", "b", "c")
				c := w.client(endpoints, false, "a", "b", "d")
				w.answer(endpoints)
				w.remove(endpoints, "a", "b", "d")
				sent, rest := c.reconcile(t, []resource.Held{{Name: "a", Version: "1"}, {Name: "b", Version: "1"}, {Name: "d", Version: "1"}})
				equal(t, "told at once", sent, []string{"-d"})
				gone, rest, _ := c.table.Gone(&c.w, nil, rest)
				if gone != nil || len(rest) != 2 {
					t.Fatalf("%v have gone, and %v are open; expected a and b to be open", gone, rest)
				}
				w.nap()
				tc.then(w)
				if !w.woke()[c.w.sub] {
					t.Fatal("nobody judges again what was left open")
				}
				if gone, rest, _ = c.table.Gone(&c.w, nil, rest); tc.open != (len(rest) == 2) || tc.open != (gone == nil) {
					t.Errorf("%v have gone, and %v are open; expected them to be open: %t", gone, rest, tc.open)
				}
			})
		})
	}
}

// TestKept: the same where the control plane says that endpoints do not exist after claims of them were compared:
// no change removes them, until the clusters go.
func TestKept(t *testing.T) {
	inTime(t, guarding, func(t *testing.T, w *world) {
		w.client(clusters, true)
		w.apply(clusters, withEndpoints("a"), withEndpoints("b"), withEndpoints("c"), withEndpoints("d"))
		w.remove(clusters, "a", "b", "c")
		c := w.client(endpoints, false, "a", "d", "new")
		sent, rest := c.reconcile(t, claims("a", "1", "d", "1"))
		if len(sent) > 0 || len(rest) != 2 {
			t.Fatalf("sent %q, and %v are open", sent, rest)
		}
		w.remove(endpoints, "a", "d", "new")
		w.answer(endpoints)
		kept := c.table.Kept(rest)
		equal(t, "sent", said(c.ask(t, Query{Keep: kept})), []string{"-d", "-new"})
		w.nap()
		pass(guarding.RemovalHold)
		if !w.woke()[c.w.sub] {
			t.Fatal("nobody judges again what was kept")
		}
		if kept = c.table.Kept(rest); kept != nil {
			t.Errorf("%v are still kept", kept.List)
		}
		gone, _, _ := c.table.Gone(&c.w, nil, rest)
		equal(t, "sent after that", said(c.ask(t, Query{Force: gone})), []string{"-a", "-d"})
	})
}

// TestKeptWhileTheOwnerAnswers: a node begins to follow another one, which now holds the clusters back. Until that has
// answered for endpoints, a client keeps those that it claims, and other nodes are not sent that they are absent.
func TestKeptWhileTheOwnerAnswers(t *testing.T) {
	inTime(t, guarding, func(t *testing.T, w *world) {
		w.client(clusters, true)
		w.apply(clusters, withEndpoints("a"), withEndpoints("b"))
		w.remove(clusters, "a", "b")
		c := w.client(endpoints, false, "a")
		_, rest := c.reconcile(t, claims("a", "1"))
		w.remove(endpoints, "a")
		w.answer(endpoints)
		absent := func() int {
			n := 0
			for _, k := range w.group.Snapshots() {
				n += len(k.Absent)
			}
			return n
		}
		if n := absent(); n > 0 {
			t.Errorf("%d names are passed on as absent while the clusters are held back", n)
		}
		w.feed.Borrow(true)
		w.feed.TakeDemand(true, true)
		w.feed.Up()
		w.feed.Apply(Update{Type: clusters, Mirror: true})
		if gone, _, _ := c.table.Gone(&c.w, nil, rest); gone != nil || c.table.Kept(rest).Len() != 1 || absent() > 0 {
			t.Fatalf("%v have gone before the owner has answered for them, %d are kept, %d absent", gone, c.table.Kept(rest).Len(), absent())
		}
		w.feed.Apply(Update{Type: endpoints, Mirror: true, Removed: []string{"a"}})
		if gone, _, _ := c.table.Gone(&c.w, nil, rest); !gone.Has("a") || absent() != 1 {
			t.Errorf("%v have gone, %d are absent", gone, absent())
		}
	})
}

// TestClaimsOfUnknownClusters: while removals of listeners are held back, a returning client keeps
// a cluster that its node has never received, and so its endpoints, even if the node had those and
// they were removed. Both are removed with the listeners (K16).
func TestClaimsOfUnknownClusters(t *testing.T) {
	inTime(t, guarding, func(t *testing.T, w *world) {
		listeners := resource.TypeOf(resource.ListenerURL)
		w.client(listeners, true)
		w.client(clusters, true)
		w.client(endpoints, false, "a", "b", "x")
		w.apply(listeners, res("l", "1"))
		w.apply(clusters, withEndpoints("a"), withEndpoints("b"))
		w.apply(endpoints, endpointSet(t, "a", 1), endpointSet(t, "b", 1), endpointSet(t, "x", 1))
		w.remove(clusters, "b")
		w.remove(endpoints, "b", "x")
		w.answer(clusters)
		pass(justBefore)
		w.remove(listeners, "l")
		held := func(names ...string) (held []resource.Held) {
			for _, n := range names {
				held = append(held, resource.Held{Name: n, Version: "old"})
			}
			return held
		}
		c, e := w.client(clusters, true), w.client(endpoints, false, "b", "x")
		sent, clustersLeft := c.reconcile(t, held("b", "x"))
		equal(t, "clusters that are told at once", sent, []string{"a", "-b"})
		sent, endpointsLeft := e.reconcile(t, held("b", "x"))
		equal(t, "endpoints that are told at once", sent, []string{"-b"})
		for _, over := range []bool{false, true} {
			for _, c := range []struct {
				*client
				left []resource.Held
			}{{c, clustersLeft}, {e, endpointsLeft}} {
				gone, rest, _ := c.table.Gone(&c.w, nil, c.left)
				if over != (gone != nil) || over != (len(rest) == 0) {
					t.Errorf("%s: %v have gone, and %v are open; the hold is over: %t", c.table.Type.URL, gone, rest, over)
				}
			}
			pass(guarding.RemovalHold)
		}
	})
}
