package cache

import (
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

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
				equal(t, "sent at once", sent, []string{"-d"})
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

// TestKeptByTheOwner: K16: the owner of a key has no endpoints of the clusters that it holds back, and a
// client of another node returned with them: it keeps them as long as the clusters are there and the owner
// holds them back, and other nodes are not sent that they are absent.
func TestKeptByTheOwner(t *testing.T) {
	for name, tc := range map[string]struct {
		kept bool
		then func(w *world)
		gone bool
	}{
		"held back":                  {true, func(*world) {}, false},
		"not held back":              {false, func(*world) {}, true},
		"until the clusters go":      {true, func(w *world) { w.feed.Apply(Update{Type: clusters, Mirror: &Mirror{}, Removed: []string{"a"}}) }, true},
		"while other clusters go":    {true, func(w *world) { w.feed.Apply(Update{Type: clusters, Mirror: &Mirror{}, Removed: []string{"b"}}) }, false},
		"until the owner says so":    {true, func(w *world) { w.feed.Apply(Update{Type: endpoints, Mirror: &Mirror{}}) }, true},
		"until the origin says so":   {true, func(w *world) { w.feed.Borrow(false); w.feed.Apply(Update{Type: endpoints}) }, true},
		"where the client adds some": {true, func(w *world) { w.client(endpoints, false, "new") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, guarding, func(t *testing.T, w *world) {
				w.client(clusters, true)
				c := w.client(endpoints, false, "a")
				w.feed.Borrow(true)
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.feed.Apply(Update{Type: clusters, Mirror: &Mirror{}, Resources: []*resource.Resource{withEndpoints("a"), withEndpoints("b")}})
				_, rest := c.reconcile(t, claims("a", "1"))
				w.feed.Apply(Update{Type: endpoints, Mirror: &Mirror{Kept: tc.kept}, Removed: []string{"a"}})
				tc.then(w)
				gone, _, _ := c.table.Gone(&c.w, nil, rest)
				absent := 0
				for _, k := range w.group.Snapshots() {
					absent += len(k.Absent)
				}
				if gone.Has("a") != tc.gone || tc.gone == (absent == 0) {
					t.Errorf("%v have gone, %d are absent for other nodes; expected a to be: %t", gone, absent, tc.gone)
				}
			})
		})
	}
}

// TestAbsentLongBeforeItsParents: K16: endpoints that the control plane removed long before their
// clusters, and that this node never had, are not kept by a client that has them from elsewhere, and
// other nodes are sent that they do not exist. If they were removed shortly before, they may have been
// lost with the clusters.
func TestAbsentLongBeforeItsParents(t *testing.T) {
	for before, want := range map[time.Duration]string{justBefore - time.Second: "open", justBefore: "gone"} {
		inTime(t, guarding, func(t *testing.T, w *world) {
			w.client(clusters, true)
			w.apply(clusters, withEndpoints("a"), withEndpoints("b"), withEndpoints("c"), withEndpoints("d"))
			c := w.client(endpoints, false, "a")
			w.feed.TakeDemand(true, true)
			w.feed.Up()
			w.remove(endpoints, "a")
			pass(before)
			w.remove(clusters, "a", "b", "c")
			gone, rest, _ := c.table.Gone(&c.w, nil, claims("a", "1"))
			absent := 0
			for _, k := range w.group.Snapshots() {
				absent += len(k.Absent)
			}
			if is := want == "gone"; is != (gone != nil) || is == (len(rest) > 0) || is != (absent == 1) {
				t.Errorf("removed %s before: %v have gone, %v are open, %d are absent for other nodes; expected it to be %s", before, gone, rest, absent, want)
			}
		})
	}
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
		w.feed.Apply(Update{Type: clusters, Mirror: &Mirror{}})
		if gone, _, _ := c.table.Gone(&c.w, nil, rest); gone != nil || c.table.Kept(rest).Len() != 1 || absent() > 0 {
			t.Fatalf("%v have gone before the owner has answered for them, %d are kept, %d absent", gone, c.table.Kept(rest).Len(), absent())
		}
		w.feed.Apply(Update{Type: endpoints, Mirror: &Mirror{}, Removed: []string{"a"}})
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
		equal(t, "clusters that are sent at once", sent, []string{"a", "-b"})
		sent, endpointsLeft := e.reconcile(t, held("b", "x"))
		equal(t, "endpoints that are sent at once", sent, []string{"-b"})
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
