package check

import (
	"testing"
	"time"

	"xdsrelay/relay/robust/record"
)

// TestDeleteOnlyIfDeleted: what is taken from a client without the origin having
// removed it is seen, in both ways of saying it.
func TestDeleteOnlyIfDeleted(t *testing.T) {
	const of = "DeleteOnlyIfDeleted"
	mustFind(t, forge(t, of, start(removed(1, clusterType, "b"))), "b of Cluster is taken away")
	mustFind(t, forge(t, of, start(sotw(2, clusterType, res("a", 1)))), "b of Cluster is taken away")
	mustBeFine(t, forge(t, of, start(origin(clusterType, "b", 0), removed(1, clusterType, "b"), sotw(2, clusterType, res("a", 1)))))

	// Without delta what was asked for by name may be left out.
	mustBeFine(t, forge(t, of, start(sotw(2, endpointType)), "Resumable"))

	// A removal before the client had it does not count.
	again := []record.Event{
		origin(clusterType, "b", 0), removed(1, clusterType, "b"),
		origin(clusterType, "b", 6), sent(clusterType, res("b", 6)), got(1, clusterType, res("b", 6)), removed(1, clusterType, "b"),
	}
	mustFind(t, forge(t, of, start(again...), "Ordered"), "b of Cluster is taken away")

	mustBeFine(t, forge(t, of, start(append(again[:5:5], opened("d", 3, "m"), removed(3, clusterType, "b"))...)))
	mustFind(t, forge(t, of, start(opened("d", 3, "m"), removed(3, clusterType, "b"))), "b of Cluster is taken away")
	// The removals of an older state may come shortly after its other content.
	moved := then(again[:5], opened("d", 3, "m"), got(3, clusterType))
	mustBeFine(t, forge(t, of, start(then(moved, after(removalsWait, removed(3, clusterType, "b")))...)))
	mustFind(t, forge(t, of, start(then(moved, after(removalsWait+1, removed(3, clusterType, "b")))...)), "b of Cluster is taken away")
	mustFind(t, forge(t, of, start(then(moved, got(3, clusterType, res("b", 6)), removed(3, clusterType, "b"))...), "Ordered", "Resumable"), "b of Cluster is taken away")

	// What never was may be told to be absent; what always was may not, to anybody.
	mustBeFine(t, forge(t, of, start(removed(1, endpointType, "never"))))
	mustFind(t, forge(t, of, start(opened("d", 3, "m"), removed(3, endpointType, "a"))), "a of ClusterLoadAssignment is taken away")

	// The control plane may be silent for so long that names count as absent, but that takes nothing
	// from anybody. At the start what it has said may not have arrived.
	early := then(start()[:9], opened("d", 1, "n"))
	absent := after(absentAfter, removed(1, endpointType, "a"))
	mustBeFine(t, forge(t, of, then(early, absent)))
	mustFind(t, forge(t, of, then(early, after(absentAfter-1, absent))), "a of ClusterLoadAssignment is taken away")
	mustFind(t, forge(t, of, then(early, got(1, endpointType, res("a", 2)), absent)), "a of ClusterLoadAssignment is taken away")
	mustFind(t, forge(t, of, then(early, at(record.Rest, ""), absent), "Converges"), "a of ClusterLoadAssignment is taken away")

	// Later it has said nothing since the node was asked.
	late := start(record.Event{Kind: record.ClientNew, Client: "e", Key: "k", Delta: true, Wants: map[string][]string{endpointType: {"a"}}},
		after(time.Second, opened("e", 3, "m")))
	gone := after(time.Second+absentAfter, removed(3, endpointType, "a"))
	mustBeFine(t, forge(t, of, then(late, gone)))
	mustFind(t, forge(t, of, then(late, after(time.Second, sent(endpointType, res("a", 2))), gone)), "a of ClusterLoadAssignment is taken away")
	mustFind(t, forge(t, of, then(late, at(record.NodeDown, "m"), at(record.NodeUp, "m"), gone)), "a of ClusterLoadAssignment is taken away")
}
