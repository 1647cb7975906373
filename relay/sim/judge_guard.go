package sim

import (
	"maps"
	"strings"
	"time"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// holders are where resources are known to be, so that removals of them can be held back.
type holders struct {
	nodes  map[string]map[resourceID]bool // by node, as long as it runs
	store  map[resourceID]bool            // in Redis, as last known good
	wanted map[want]time.Time             // when a client was last seen with it
	since  map[want]time.Time             // since when there was always one, or for no longer than the node keeps it
	passed bool                           // a node has ended in order, so what it had may be with any other
}

// want is that a node has clients of a type of a key.
type want struct{ node, key, typeURL string }

// lingers is for how long a node keeps for sure what no client of it wants any more: a little
// less than cache.linger.
const lingers = 55 * time.Second

func newHolders() holders {
	return holders{nodes: make(map[string]map[resourceID]bool), store: make(map[resourceID]bool), wanted: make(map[want]time.Time), since: make(map[want]time.Time)}
}

// holds reports whether a node has a resource.
func (h *holders) holds(node string, id resourceID) bool {
	return h.nodes[node][id] && time.Since(h.wanted[want{node, id.key, id.typeURL}]) < lingers
}

// note takes an event in: what a node sends it has, and what it removes it has not. If it may have been
// sent long ago, it is late, and the node need not have it any more.
func (h *holders) note(c *view, e *record.Event, late bool) {
	switch {
	case e.Kind == record.NodeDown && e.Why != cutOffWhy:
		delete(h.nodes, e.Node)
		maps.DeleteFunc(h.since, func(w want, _ time.Time) bool { return w.node == e.Node })
		h.passed = h.passed || e.Why != "killed"
	case e.Kind == record.NodeUp && e.Why != cutOffWhy: // a node sends updates also while it drains
		delete(h.nodes, e.Node)
	case e.Kind == record.Fault && (strings.Contains(e.Why, "redis-down") || strings.Contains(e.Why, "redis-flush")):
		clear(h.store)
	case e.Kind == record.ClientGot:
		for _, name := range c.gone(e) {
			delete(h.nodes[c.stream.node], resourceID{c.client.Key, e.Type, name})
		}
		for _, r := range e.Resources {
			if late {
				break
			}
			h.has(c.stream.node, resourceID{c.client.Key, e.Type, r.Name})
		}
	}
}

func (h *holders) has(node string, id resourceID) {
	if h.nodes[node] == nil {
		h.nodes[node] = make(map[resourceID]bool)
	}
	h.wants(want{node, id.key, id.typeURL})
	h.nodes[node][id] = true
}

// wants notes that a client of a node wants a type. If none did for too long, the node has nothing
// of before for sure.
func (h *holders) wants(w want) {
	if time.Since(h.wanted[w]) >= lingers {
		maps.DeleteFunc(h.nodes[w.node], func(id resourceID, _ bool) bool { return id.key == w.key && id.typeURL == w.typeURL })
		delete(h.since, w)
	}
	if _, known := h.since[w]; !known {
		h.since[w] = time.Now()
	}
	h.wanted[w] = time.Now()
}

// hadClients reports whether any node may have a type of a key from before a time: it had a client of
// it, or nodes that have ended in order, or records, may have passed it on.
func (h *holders) hadClients(key, typeURL string, before time.Time) bool {
	for w, since := range h.since {
		if w.key == key && w.typeURL == typeURL && since.Before(before) {
			return true
		}
	}
	return h.passed
}

// lookAtHolders notes what nodes and the store have by now for sure: what clients went on to
// have while nothing was wrong. A client that returns with what is current gets no answer
// that names it.
func (j *judge) lookAtHolders() {
	for _, c := range j.clients {
		// Its client may notice later that it does not, and it may end the stream of a client that it
		// cannot reach.
		if j.serves(c.stream) && j.world.network.fine(c.stream.node, clientsHost) {
			for typeURL := range c.client.Wants {
				j.holders.wants(want{c.stream.node, c.client.Key, typeURL})
			}
		}
	}
	if !j.world.plan.Guard || len(j.world.originBy) > 0 || !j.world.redisWell() || !j.calm(j.world.hosts()...) {
		return
	}
	for _, n := range j.world.nodes {
		n.blind = false
	}
	for _, c := range j.clients {
		if !j.serves(c.stream) || time.Since(c.stream.opened) < calm {
			continue
		}
		for typeURL, names := range c.held {
			for name := range names {
				id := resourceID{c.client.Key, typeURL, name}
				if !xdstest.FullState(typeURL) || !c.stream.answers(typeURL) || j.lacks(id) || j.world.to.Since()-j.changed[id] < calm {
					continue
				}
				j.holders.has(c.stream.node, id)
				if j.world.plan.Kept == "redis" {
					j.holders.store[id] = true
				}
			}
		}
	}
}

// emptying is a time in which a control plane has nothing of a type of a key.
type emptying struct {
	since time.Duration
	until time.Duration // when something was there again; zero while there is nothing
}

// emptied notes when a control plane took all of a type from a key. What returns and goes again
// within one moment is never sent, so no node begins another hold for it.
func (j *judge) emptied(e *record.Event) {
	of := resourceID{key: e.Key, typeURL: e.Type}
	last, known := j.empty[of]
	for id := range j.histories {
		if id.key == e.Key && id.typeURL == e.Type && !j.lacks(id) {
			if known && last.until == 0 {
				j.empty[of] = emptying{since: last.since, until: e.At}
			}
			return
		}
	}
	switch {
	case known && last.until == e.At:
		j.empty[of] = emptying{since: last.since}
	case !known || last.until != 0:
		j.empty[of] = emptying{since: e.At}
	}
}

// unguarded judges a response: while a control plane has nothing of a type, and the hold of
// the removal guard lasts, no client loses what a node, or the store, still has (K16). What
// nobody has who can be reached may go: the guard cannot hold back what it does not know.
func (j *judge) unguarded(c *view, e *record.Event) []check.Contradiction {
	empty, ok := j.empty[resourceID{key: c.client.Key, typeURL: e.Type}]
	if !j.world.plan.Guard || !ok || empty.until != 0 || e.At >= empty.since+guardHold || !xdstest.FullState(e.Type) {
		return nil
	}
	for _, name := range c.gone(e) {
		id := resourceID{c.client.Key, e.Type, name}
		if !c.held[e.Type][name] || !j.lacks(id) || j.goneBefore(c, id, empty.since) {
			continue
		}
		if knows := j.heldBy(c.stream.node, id); knows != "" {
			return found("Guard", e, "client %s loses %s of %s by %s %s after the control plane became empty, though %s had it",
				c.client.Client, name, record.ShortType(e.Type), e.Node, e.At-empty.since, knows)
		}
	}
	return nil
}

// goneBefore reports whether what a client just lost had gone before the control plane became
// empty: it was not there any more, or the client gets a newer state than it had, from between,
// in which the control plane had removed it, and sent that, but not yet added it again. It may have
// removed it several times by then.
func (j *judge) goneBefore(c *view, id resourceID, empty time.Duration) bool {
	h := j.histories[id]
	for at := c.past[id]; at < len(h.serials) && h.since[at] < empty; at++ {
		if h.serials[at] == absent && (h.served[at] || at == len(h.serials)-1) {
			return true
		}
	}
	return false
}

// heldBy is a node, or the store, that has a resource, and that all nodes can reach which may
// have decided that it goes. Empty for none.
func (j *judge) heldBy(node string, id resourceID) string {
	var others []string
	for _, n := range j.world.nodes {
		if n.relay == nil {
			continue
		}
		if n.blind { // it may be the owner for those that know it from before
			return ""
		}
		others = append(others, n.name)
	}
	if j.holders.holds(node, id) {
		return node
	}
	if !j.world.redisWell() || !j.linked(append(others, redisHost)...) {
		return ""
	}
	for _, name := range others {
		if j.holders.holds(name, id) && time.Since(j.world.node(name).since) > calm {
			return name
		}
	}
	if j.holders.store[id] {
		return redisHost
	}
	return ""
}

// linked reports whether nothing has been wrong between hosts for some time. They may have
// been restarted.
func (j *judge) linked(names ...string) bool {
	for i, a := range names {
		if at, ok := j.parted[a]; ok && time.Since(at) < calm {
			return false
		}
		for _, b := range names[i+1:] {
			if !j.world.network.fine(a, b) {
				return false
			}
		}
	}
	return true
}
