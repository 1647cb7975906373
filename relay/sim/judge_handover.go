package sim

import (
	"maps"
	"slices"
	"time"

	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// successors are the nodes of which one holds what another node had that ended on SIGTERM while the
// control plane was away: nobody can ask for it there any more.
type successors struct {
	nodes []string
	from  time.Time // when that is over, at the latest
	until time.Time // from when on they may have forgotten it, without clients
}

const (
	// handsOver is longer than a node takes to end, and to hand over what it holds.
	handsOver = 10 * time.Second
	// awayFor is how long the control plane is away when nodes know that for sure.
	awayFor = 10 * time.Second
	// remembers is for how long nodes keep for sure what they hold of keys without clients.
	remembers = 4 * time.Minute
	// joins is how long a node takes to be a member that the others know.
	joins = 3 * time.Second
)

// handedOver notes that a node has ended: what it had for clients is then with one of the others,
// if it ended on SIGTERM, and they could reach one another.
func (j *judge) handedOver(e *record.Event) {
	others, good := j.others(e.Node)
	good = good && e.Why == "drained" && len(others) > 0 && j.outage >= awayFor && j.world.redisWell() && j.linked(append(others, e.Node, redisHost)...)
	for id, h := range j.successors {
		switch {
		case !slices.Contains(h.nodes, e.Node):
		case good:
			h.nodes, h.from = others, time.Now().Add(handsOver)
			j.successors[id] = h
		default:
			delete(j.successors, id)
		}
	}
	for w, at := range j.had {
		if w.node != e.Node {
			continue
		}
		delete(j.had, w)
		id := resourceID{key: w.key, typeURL: w.typeURL}
		if _, known := j.successors[id]; good && !known && time.Since(at) < remembers {
			j.successors[id] = successors{nodes: others, from: time.Now().Add(handsOver), until: time.Now().Add(remembers)}
		}
	}
}

// others are the nodes that run, other than one that ends; good says that all have done so for some
// time, and that no other one is about to end.
func (j *judge) others(than string) (names []string, good bool) {
	good = true
	for _, n := range j.world.nodes {
		switch {
		case n.name == than:
		case n.relay == nil:
			good = good && (n.since.IsZero() || time.Since(n.since) >= calm) // it may count as a member until then
		default:
			names = append(names, n.name)
			good = good && time.Since(n.since) >= joins
		}
	}
	return names, good
}

// lookAtHad notes which types nodes have for clients, and forgets what is over.
func (j *judge) lookAtHad() {
	maps.DeleteFunc(j.successors, func(_ resourceID, h successors) bool { return time.Now().After(h.until) })
	for _, c := range j.clients {
		if !j.serves(c.stream) {
			continue
		}
		for typeURL := range c.stream.answered {
			if len(c.held[typeURL]) > 0 { // else there may be nothing to hand over
				j.had[want{c.stream.node, c.client.Key, typeURL}] = time.Now()
			}
		}
	}
}

// successor is a node from which another one, or the same, can have what one had that ended on
// SIGTERM; empty for none.
func (j *judge) successor(node, key, typeURL string) string {
	h, known := j.successors[resourceID{key: key, typeURL: typeURL}]
	now := time.Now()
	if !known || now.Before(h.from) || now.After(h.until) || !xdstest.FullState(typeURL) || len(j.world.originBy) == 0 || !j.world.redisWell() ||
		!j.running(node) || !j.calm(append(slices.Clone(h.nodes), node, clientsHost, redisHost)...) {
		return ""
	}
	return slices.Min(h.nodes)
}
