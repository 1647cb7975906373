package check

import (
	"testing"

	"xdsrelay/relay/robust/record"
)

// TestConverges: what a client lacks, has of old or has too much is seen at rest.
func TestConverges(t *testing.T) {
	const of = "Converges"
	rest := at(record.Rest, "")
	mustBeFine(t, forge(t, of, start(rest)))
	mustBeFine(t, forge(t, of, start(origin(clusterType, "a", 4)))) // no rest yet
	newer := func(more ...record.Event) []record.Event {
		return start(append([]record.Event{origin(clusterType, "a", 4), sent(clusterType, res("a", 4))}, more...)...)
	}
	mustFind(t, forge(t, of, newer(got(1, clusterType, res("a", 4)), rest)), "client s at n, key k, Cluster: has a@1, the origin @4")
	mustFind(t, forge(t, of, newer(sotw(2, clusterType, res("a", 4), res("b", 3)), rest)), "client d at n, key k, Cluster: has a@1, the origin @4")
	gone := start(origin(clusterType, "b", 0), sotw(2, clusterType, res("a", 1)), rest)
	mustFind(t, forge(t, of, gone), "client d at n, key k, Cluster: still has b@3")
	more := start(origin(clusterType, "c", 5), sent(clusterType, res("c", 5)), got(1, clusterType, res("c", 5)), rest)
	mustFind(t, forge(t, of, more), "client s at n, key k, Cluster: lacks c@5")
	away := start(at(record.NodeDown, "n"), ended(1), rest)
	mustFind(t, forge(t, of, away), "client d has no stream")

	// Who is away holds what there was.
	gone = start(record.Event{Kind: record.ClientAway, Client: "d"}, origin(clusterType, "b", 0), sotw(2, clusterType, res("a", 1)), rest)
	mustBeFine(t, forge(t, of, gone))
	mustFind(t, forge(t, of, then(gone, record.Event{Kind: record.ClientBack, Client: "d"}, rest)), "client d at n, key k, Cluster: still has b@3")

	// While a fault lasts that clients must not notice.
	held := at(record.Held, "")
	mustFind(t, forge(t, of, start(origin(clusterType, "c", 5), sent(clusterType, res("c", 5)), got(1, clusterType, res("c", 5)), held)), "client s at n, key k, Cluster: lacks c@5")

	// By name and without delta a removal cannot be told.
	kept := start(origin(endpointType, "a", 0), removed(1, endpointType, "a"), rest)
	mustBeFine(t, forge(t, of, kept))
}
