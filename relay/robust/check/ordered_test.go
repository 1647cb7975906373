package check

import (
	"testing"
	"time"

	"xdsrelay/relay/robust/record"
)

// TestOrdered: a resource that goes back on a stream is seen, unless the origin went
// back or the stream is another one.
func TestOrdered(t *testing.T) {
	const of = "Ordered"
	changes := start(origin(clusterType, "a", 4), sent(clusterType, res("a", 4)), origin(clusterType, "a", 5), sent(clusterType, res("a", 5)))
	mustBeFine(t, forge(t, of, then(changes, got(1, clusterType, res("a", 5)))))
	mustFind(t, forge(t, of, then(changes, got(1, clusterType, res("a", 5)), got(1, clusterType, res("a", 4)))), "a of Cluster is back at @4, after @5")
	mustFind(t, forge(t, of, then(changes, sotw(2, clusterType, res("a", 4), res("b", 3)), sotw(2, clusterType, res("a", 1), res("b", 3)))),
		"a of Cluster is back at @1, after @4")

	// The origin goes back, once.
	back := then(changes, origin(clusterType, "a", 1), got(1, clusterType, res("a", 5)), got(1, clusterType, res("a", 1)))
	mustBeFine(t, forge(t, of, back))
	mustFind(t, forge(t, of, then(back, got(1, clusterType, res("a", 5)))), "a of Cluster is back at @5, after @1")

	// Another node may be behind; what a client is told there is another matter.
	mustBeFine(t, forge(t, of, then(changes, got(1, clusterType, res("a", 5)), opened("d", 3, "m"), got(3, clusterType, res("a", 4)))))

	// A removal is a state like others.
	gone := start(origin(clusterType, "b", 0), removed(1, clusterType, "b"))
	mustFind(t, forge(t, of, then(gone, got(1, clusterType, res("b", 3)))), "b of Cluster is back at @3, after its removal")
	again := then(gone, origin(clusterType, "b", 6), sent(clusterType, res("b", 6)), got(1, clusterType, res("b", 6)))
	mustFind(t, forge(t, of, then(again, removed(1, clusterType, "b")), "DeleteOnlyIfDeleted"), "b of Cluster is back at its removal, after @6")
}

// TestOrderedWithTheGuard: what the removal guard keeps with what refers to it may come
// back as it was, and listeners that other nodes hold back, and nothing else.
func TestOrderedWithTheGuard(t *testing.T) {
	wrong := func(events ...record.Event) (all []string) {
		v, m := newOrdered(time.Minute), newModel()
		for i := range events {
			events[i].Seq = i + 1
			all = append(all, v.check(m, &events[i])...)
			m.apply(&events[i])
		}
		return all
	}
	gone := start(origin(endpointType, "a", 6), sent(endpointType, res("a", 6)), got(1, endpointType, res("a", 6)), origin(endpointType, "a", 0), removed(1, endpointType, "a"))
	back := then(gone, got(1, endpointType, res("a", 6)))
	mustBeFine(t, wrong(back...))
	mustFind(t, wrong(then(back, got(1, endpointType, res("a", 2)))...), "a of ClusterLoadAssignment is back at @2, after @6")

	// What was sent may not have arrived, so nodes may have what was accepted before; no older.
	unheard := start(accepted(endpointType, res("a", 2)), origin(endpointType, "a", 6), sent(endpointType, res("a", 6)), origin(endpointType, "a", 0), removed(1, endpointType, "a"))
	mustBeFine(t, wrong(then(unheard, got(1, endpointType, res("a", 2)))...))
	mustBeFine(t, wrong(then(unheard, got(1, endpointType, res("a", 6)))...))
	heard := start(origin(endpointType, "a", 6), sent(endpointType, res("a", 6)), accepted(endpointType, res("a", 6)), origin(endpointType, "a", 7),
		sent(endpointType, res("a", 7)), origin(endpointType, "a", 0), removed(1, endpointType, "a"))
	mustBeFine(t, wrong(then(heard, got(1, endpointType, res("a", 6)))...))
	mustFind(t, wrong(then(heard, got(1, endpointType, res("a", 2)))...), "a of ClusterLoadAssignment is back at @2, after its removal")

	// It may have gone back to what it had served long before, while nobody was connected.
	older := then(start(accepted(endpointType, res("a", 2)), origin(endpointType, "a", 6), sent(endpointType, res("a", 6)), accepted(endpointType, res("a", 6)), origin(endpointType, "a", 2)),
		origin(endpointType, "a", 0), removed(1, endpointType, "a"))
	mustBeFine(t, wrong(then(older, got(1, endpointType, res("a", 6)))...))
	mustFind(t, wrong(then(older, got(1, endpointType, res("a", 2)))...), "a of ClusterLoadAssignment is back at @2, after its removal")

	// What the control plane had while it was away is not what nodes knew last.
	away := start(origin(endpointType, "a", 7), origin(endpointType, "a", 0), removed(1, endpointType, "a"), got(1, endpointType, res("a", 2)))
	mustBeFine(t, wrong(away...))
	was := start(origin(endpointType, "a", 7), sent(endpointType, res("a", 7)), accepted(endpointType, res("a", 7)),
		origin(endpointType, "a", 0), removed(1, endpointType, "a"), got(1, endpointType, res("a", 2)))
	mustFind(t, wrong(was...), "a of ClusterLoadAssignment is back at @2, after its removal")

	// Nothing refers to listeners: more than half of them went at once, and the hold lasts.
	l := res("l", 8)
	left := start(origin(listenerType, "k", 9), origin(listenerType, "l", 8), sent(listenerType, l, res("k", 9)), got(1, listenerType, l, res("k", 9)),
		origin(listenerType, "l", 0), removed(1, listenerType, "l"))
	mustFind(t, wrong(then(left, got(1, listenerType, l))...), "l of Listener is back at @8, after its removal")
	empty := then(left, origin(listenerType, "k", 0), removed(1, listenerType, "k"))
	mustBeFine(t, wrong(then(empty, got(1, listenerType, l))...))
	mustFind(t, wrong(then(empty, after(time.Minute, got(1, listenerType, l)))...), "l of Listener is back at @8, after its removal")
	// What the control plane had in between, and never sent, is no later removal.
	unsent := then(left, origin(listenerType, "k", 0), origin(listenerType, "j", 9), sent(listenerType, res("j", 9)), origin(listenerType, "j", 0), removed(1, listenerType, "k"))
	for _, e := range []record.Event{origin(listenerType, "k", 11), origin(listenerType, "l", 12), origin(listenerType, "l", 0)} {
		unsent = then(unsent, after(5*time.Second, e))
	}
	mustBeFine(t, wrong(then(unsent, after(5*time.Second, got(1, listenerType, l)))...))
	// A node that asks the control plane later, with its last known good state, begins a hold then.
	asked := after(30*time.Second, record.Event{Kind: record.OriginOpen, Stream: 901, Key: "k"})
	mustBeFine(t, wrong(then(empty, asked, after(time.Minute, got(1, listenerType, l)))...))
	mustFind(t, wrong(then(empty, asked, after(90*time.Second, got(1, listenerType, l)))...), "l of Listener is back at @8, after its removal")
	slow := then(left, after(2*time.Second, origin(listenerType, "k", 0)), after(2*time.Second, removed(1, listenerType, "k")))
	mustFind(t, wrong(then(slow, after(2*time.Second, got(1, listenerType, l)))...), "l of Listener is back at @8, after its removal")
}
