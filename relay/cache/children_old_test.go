package cache

import (
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

// TestLongLost: resources that were removed long before their parents stay away, and are not
// remembered.
func TestLongLost(t *testing.T) {
	inTime(t, guarding, func(t *testing.T, w *world) {
		f := newFamily(t, w)
		w.remove(endpoints, "a")
		expect(t, f.endpoints.ask(t, Query{}), "-a")
		pass(justBefore)
		f.endpoints.table.mu.Lock()
		if lost := f.endpoints.table.core.lost; lost != nil {
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

// TestOldChildrenBesideRenewedOnes: K16, K12: that another node had newer content of some names makes
// others, which were restored from long ago, no newer: these stay away if the control plane lacks them
// and then their parents.
func TestOldChildrenBesideRenewedOnes(t *testing.T) {
	for name, give := range map[string]func(g *Group, k Snapshot){
		"as the newest content": (*Group).RestoreFrom,
		"beside its own":        func(g *Group, k Snapshot) { g.Renew([]Snapshot{k}) },
		"twice": func(g *Group, k Snapshot) {
			g.Renew([]Snapshot{k})
			g.Renew([]Snapshot{holds(endpoints, false, k.AsOf.Add(time.Millisecond), endpointSet(t, "b", 3))})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, guarding, func(t *testing.T, w *world) {
				now := time.Now()
				w.group.RestoreFrom(holds(endpoints, false, now.Add(-time.Hour), endpointSet(t, "a", 1), endpointSet(t, "b", 1)))
				w.client(clusters, true)
				c := w.client(endpoints, false, "a", "b")
				give(w.group, holds(endpoints, false, now.Add(-time.Second), endpointSet(t, "b", 2)))
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{withEndpoints("a"), withEndpoints("b")}, Full: true})
				w.remove(endpoints, "a", "b")
				pass(time.Second)
				w.remove(clusters, "a", "b")
				pass(time.Second)
				expectSees(t, c, "-a", "b")
			})
		})
	}
}

// TestUnmentionedParents: K16, K12: a delta control plane that has lost everything answers that endpoints
// do not exist, and omits their clusters, which this node has restored. When it counts these as removed,
// a second later, they are held back, and have their endpoints.
func TestUnmentionedParents(t *testing.T) {
	inTime(t, guarding, func(t *testing.T, w *world) {
		asOf := time.Now().Add(-time.Hour)
		w.group.RestoreFrom(holds(clusters, true, asOf, withEndpoints("a"), withEndpoints("b")))
		w.group.RestoreFrom(holds(endpoints, false, asOf, endpointSet(t, "a", 1), endpointSet(t, "b", 1)))
		c, e := w.client(clusters, true), w.client(endpoints, false, "a", "b")
		w.feed.TakeDemand(true, true)
		w.feed.Up()
		for range 2 { // it answers in two parts
			w.feed.Apply(Update{Type: clusters, Differences: true})
			w.feed.Apply(Update{Type: endpoints, Removed: []string{"a", "b"}, Differences: true})
		}
		expectSees(t, e, "-a", "-b")
		pass(time.Second)
		w.feed.Apply(Update{Type: clusters, Removed: []string{"a", "b"}, Kind: Unmentioned})
		expectSees(t, c, "a", "b")
		expectSees(t, e, "a", "b")
		if got := w.group.Snapshots()[0]; !got.HeldAsOf.Equal(asOf) {
			t.Errorf("held back as of %s, expected %s", got.HeldAsOf, asOf)
		}
		w.check()
	})
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
