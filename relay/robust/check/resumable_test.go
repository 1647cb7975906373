package check

import (
	"testing"
	"time"

	"xdsrelay/relay/robust/record"
)

// TestResumable: what a client has is not sent again, neither on a stream nor at its
// return, whatever way it speaks.
func TestResumable(t *testing.T) {
	const of = "Resumable"
	a, b := res("a", 1), res("b", 3)

	// Delta, on the same stream and on the next one.
	mustFind(t, forge(t, of, start(got(1, clusterType, a))), "a@1 of Cluster is sent again")
	back := start(at(record.NodeDown, "n"), ended(1), opened("d", 3, "m"))
	mustFind(t, forge(t, of, then(back, got(3, clusterType, a))), "a@1 of Cluster is sent again")
	changed := then(back, origin(clusterType, "a", 4), sent(clusterType, res("a", 4)))
	mustBeFine(t, forge(t, of, then(changed, got(3, clusterType, res("a", 4)))))
	mustBeFine(t, forge(t, of, then(changed, origin(clusterType, "a", 1), got(3, clusterType, a)))) // there and back

	mustFind(t, forge(t, of, start(origin(clusterType, "a", 0), got(1, clusterType, a))), "a@1 of Cluster is sent again")

	// What came back long before the client was sent it is no reason to send it again.
	returned := then(back, after(1, origin(clusterType, "a", 4)), after(2, origin(clusterType, "a", 1)), after(2*unsure, got(3, clusterType, a)))
	mustBeFine(t, forge(t, of, returned))
	mustFind(t, forge(t, of, then(returned, after(2*unsure, got(3, clusterType, a)))), "a@1 of Cluster is sent again")

	// The same content under another version is sent again for nothing, too, but
	// that is for K11 to say: the node cannot know.
	other := a
	other.Version = "w"
	mustBeFine(t, forge(t, of, then(back, got(3, clusterType, other))))

	// Endpoints follow their cluster, once.
	follow := then(changed, got(3, clusterType, res("a", 4)), got(3, endpointType, res("a", 2)))
	mustBeFine(t, forge(t, of, follow))
	mustFind(t, forge(t, of, then(follow, got(3, endpointType, res("a", 2)))), "a@2 of ClusterLoadAssignment is sent again")

	// The resource takes back that it could not be had, once (C16).
	failed := got(3, clusterType)
	failed.Errors = []string{"a"}
	restored := then(back, failed, got(3, clusterType, a))
	mustBeFine(t, forge(t, of, restored))
	mustFind(t, forge(t, of, then(restored, got(3, clusterType, a))), "a@1 of Cluster is sent again")

	// So it may for a client that is new on a node, where another client was sent the error.
	elsewhere := got(2, clusterType)
	elsewhere.Errors = []string{"a"}
	moved := start(elsewhere, at(record.NodeDown, "n"), ended(1), opened("d", 3, "m"), got(3, clusterType, a))
	mustBeFine(t, forge(t, of, moved))
	mustFind(t, forge(t, of, then(moved, got(3, clusterType, a))), "a@1 of Cluster is sent again")
	elsewhere.At = 2 * unsure // the stream is older
	mustFind(t, forge(t, of, start(elsewhere, got(1, clusterType, a))), "a@1 of Cluster is sent again")

	elsewhere.At = 0 // a newer error does not make nodes forget the first
	later := elsewhere
	later.At = 2 * unsure
	mustBeFine(t, forge(t, of, start(elsewhere, later, at(record.NodeDown, "n"), ended(1), opened("d", 3, "m"), got(3, clusterType, a))))

	// Nor does newer content, which a node may not know to be newer.
	newer := res("a", 4)
	replaced := start(elsewhere, after(1, origin(clusterType, "a", 4)), sent(clusterType, newer), after(1, got(1, clusterType, newer)))
	next := then(replaced, at(record.NodeDown, "n"), ended(1), after(1, opened("d", 3, "m")), after(5*unsure, got(3, clusterType, newer)))
	mustBeFine(t, forge(t, of, next))
	mustFind(t, forge(t, of, then(next, got(3, clusterType, newer))), "a@4 of Cluster is sent again")

	// The state of the world, on the same stream and on the next one.
	mustFind(t, forge(t, of, start(sotw(2, clusterType, a, b))), "is sent Cluster again")
	mustFind(t, forge(t, of, start(sotw(2, endpointType, res("a", 2)))), "is sent ClusterLoadAssignment again")
	mustBeFine(t, forge(t, of, start(sotw(2, endpointType)))) // of other names
	again := start(at(record.NodeDown, "n"), ended(2), opened("s", 3, "m"))
	mustFind(t, forge(t, of, then(again, sotw(3, clusterType, a, b))), "is sent Cluster again")
	mustBeFine(t, forge(t, of, then(again, sotw(3, endpointType, res("a", 2))))) // a version proves nothing of names
	mustBeFine(t, forge(t, of, then(again, sotw(3, endpointType, res("b", 8)), sotw(3, endpointType, res("a", 2))), "NoPhantom"))
	mustBeFine(t, forge(t, of, then(again, origin(clusterType, "c", 5), origin(clusterType, "c", 0), sotw(3, clusterType, a, b))))

	// An error is taken back in that way, too, once, and for the names that it was of.
	failed = sotw(2, endpointType)
	failed.Errors = []string{"a"}
	taken := start(failed, sotw(2, endpointType, res("a", 2)))
	mustBeFine(t, forge(t, of, taken))
	mustFind(t, forge(t, of, then(taken, sotw(2, endpointType, res("a", 2)))), "is sent ClusterLoadAssignment again")
	failed.Errors = []string{"b"}
	mustFind(t, forge(t, of, start(failed, sotw(2, endpointType, res("a", 2)))), "is sent ClusterLoadAssignment again")
	elsewhere = got(1, endpointType)
	elsewhere.Errors = []string{"a"}
	mustBeFine(t, forge(t, of, start(elsewhere, sotw(2, endpointType, res("a", 2)))))
}

// TestResumableEmpty: a client that has had no answer does not know that there is nothing.
func TestResumableEmpty(t *testing.T) {
	const of = "Resumable"
	empty := start(origin(clusterType, "a", 0), origin(clusterType, "b", 0), removed(1, clusterType, "a", "b"), sotw(2, clusterType), at(record.Rest, ""),
		record.Event{Kind: record.ClientNew, Client: "new", Key: "k", Wants: map[string][]string{clusterType: nil}}, opened("new", 3, "n"))
	mustBeFine(t, forge(t, of, then(empty, sotw(3, clusterType))))
	mustFind(t, forge(t, of, then(empty, sotw(3, clusterType), sotw(3, clusterType))), "is sent Cluster again")
}

// TestResumableWithTheGuard: what the removal guard restores may be sent once more by name and
// without delta, where clients are never sent a removal, and nothing else.
func TestResumableWithTheGuard(t *testing.T) {
	v := newResumable(true, true)
	again := func(events ...record.Event) (all []string) {
		m := newModel()
		for i := range events {
			events[i].Seq = i + 1
			all = append(all, v.check(m, &events[i])...)
			m.apply(&events[i])
		}
		return all
	}
	gone := start(origin(endpointType, "a", 0), origin(clusterType, "b", 0), at(record.Rest, ""))
	if all := again(then(gone, sotw(2, endpointType, res("a", 2)))...); len(all) > 0 {
		t.Errorf("endpoints that the guard restores: %q", all)
	}
	mustFind(t, again(start(sotw(2, endpointType, res("a", 2)))...), "is sent ClusterLoadAssignment again")
	mustFind(t, again(then(gone, sotw(2, clusterType, res("a", 1), res("b", 3)))...), "is sent Cluster again")
	mustFind(t, again(then(gone, got(1, endpointType, res("a", 2)))...), "a@2 of ClusterLoadAssignment is sent again")

	// So it may by delta to a client that connected between the removal and its return, which
	// follows soon.
	a, l := res("a", 1), res("l", 5)
	lost := start(got(1, listenerType, l), after(time.Second, origin(clusterType, "a", 0)), after(time.Second, sent(clusterType, res("b", 3))),
		after(time.Second, sent(listenerType)), at(record.NodeDown, "n"), ended(1), after(2*time.Second, opened("d", 3, "m")))
	back := then(lost, after(time.Second+restores, got(3, clusterType, a)))
	if all := again(back...); len(all) > 0 {
		t.Errorf("a cluster that the guard restores: %q", all)
	}
	mustFind(t, forge(t, "Resumable", back, "NoPhantom"), "a@1 of Cluster is sent again") // there is no guard
	mustFind(t, again(then(lost, after(2*time.Second+restores, got(3, clusterType, a)))...), "a@1 of Cluster is sent again")
	mustFind(t, again(then(lost, after(5*time.Second, got(3, listenerType, l)))...), "l@5 of Listener is sent again") // nothing refers to it
	mustFind(t, again(then(lost, after(30*time.Second, sent(clusterType, res("b", 3))), after(30*time.Second, got(3, clusterType, a)))...), "a@1 of Cluster is sent again")
}
