package sim

import (
	"slices"
	"time"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// sentBack judges a response: whoever has newer content does not get older, unless the
// node could not know that there is newer, may have sent it before it knew, or the removal
// guard gives it back.
func (j *judge) sentBack(c *view, e *record.Event) []check.Contradiction {
	step := func(name string, serial int) []check.Contradiction {
		id := resourceID{c.client.Key, e.Type, name}
		h, at := j.histories[id], c.past[id]
		if to := h.find(serial, at); to >= 0 {
			if h != nil && serial == absent && h.serials[at] != absent {
				j.removed[nodeResource{c.stream.node, id}] = h.serials[at]
			}
			c.past[id], c.stream.has[id] = to, to
			return nil
		}
		before := h.find(serial, 0)
		if before < 0 {
			return nil // another validator judges what never was
		}
		c.past[id], c.stream.has[id] = before, before
		knows := ""
		if !j.givesBack(e, c.stream.node, id, at, serial) && !j.late(c.stream.node) {
			if knows = j.knows(c, id, at); knows == "" && j.proven(id, at) && !c.reportsNothing(e) {
				knows = "the tier head"
			}
		}
		if knows == "" || j.misled(c.stream.node) || j.isStaged(e.Type) {
			j.counts.Excused++
			return nil
		}
		return found("NotBack", e, "client %s is sent back from %s@%d to @%d of %s by %s, though %s has newer",
			c.client.Client, name, h.serials[at], serial, record.ShortType(e.Type), e.Node, knows)
	}
	for _, r := range e.Resources {
		if wrong := step(r.Name, r.Serial); wrong != nil {
			return wrong
		}
	}
	for _, name := range c.gone(e) {
		if wrong := step(name, absent); wrong != nil {
			return wrong
		}
	}
	return nil
}

// reportsNothing reports whether a client has returned without a version of a type, since all that it had was
// removed: like a new client, it gets what its node has. A SotW client reports a version even then.
func (v *view) reportsNothing(e *record.Event) bool {
	return v.client.Delta && !v.stream.answers(e.Type) && len(v.held[e.Type]) == 0
}

// givesBack reports whether the removal guard gives back what a client has lost, at a time,
// as it was before (K16): what those refer to that it keeps, which are clusters, endpoints and
// routes, and what other nodes hold back. A node that had nothing does what the control plane
// says, and may meet others later that hold that back. A node whose connection
// to the control plane had stalled gives back what it has removed itself, which may be older than what
// others had.
func (j *judge) givesBack(e *record.Event, node string, id resourceID, at, serial int) bool {
	h := j.histories[id]
	return j.world.plan.Guard && h.serials[at] == absent && serial != absent &&
		(h.heldBefore(at, serial) || j.originStalled(node) && j.removed[nodeResource{node, id}] == serial) &&
		(e.Type != xdstest.ListenerType || j.holdsBack(e, id))
}

// holdsBack reports whether nodes that have a resource hold its removal back: more than half
// of its type went at once, and their hold lasts. A node that started after they went, with its
// last known good state, holds them back from when it asked the control plane.
func (j *judge) holdsBack(e *record.Event, id resourceID) bool {
	since := j.changed[id]
	for _, n := range j.world.nodes {
		if n.relay != nil && n.since.After(j.timeOf(since)) {
			since = max(since, j.asked[id.key])
		}
	}
	if !j.lacks(id) || e.At >= since+guardHold {
		return false
	}
	gone, all := 0, 0
	for other := range j.histories {
		switch {
		case other.key != id.key || other.typeURL != id.typeURL:
		case !j.lacks(other) || j.changed[other] > j.changed[id]: // it was there
			all++
		case j.changed[other] == j.changed[id]:
			gone, all = gone+1, all+1
		}
	}
	return 2*gone > all
}

// excuses reports whether nothing is wrong with what a validator of recordings found: a node
// cannot know that the owner of a key, whose connection to the control plane has stalled, has
// older content than it got from there itself meanwhile. The guarantees name this exception.
//
// Nor is anything wrong where a node counts names as absent that a client never had, since its own
// connection to the control plane has stalled before the first answer (C12); and a client may be
// sent again what it got late, over a network that stalled, if the control plane removed that and
// restored it meanwhile.
func (j *judge) excuses(c check.Contradiction) bool {
	switch {
	case j.stagedBack(&c):
		return true
	case c.Guarantee == "Resumable" && j.late(c.Event.Node), c.Guarantee == "DeleteOnlyIfDeleted" && j.originStalled(c.Event.Node) && j.hasNone(&c.Event):
		j.counts.Excused++
		return true
	}
	if c.Guarantee != "Ordered" && c.Guarantee != "DeleteOnlyIfDeleted" { // older sets lack what is new
		return false
	}
	if j.outdone(c.Event.Node) || j.late(c.Event.Node) && j.overtaken[c.Event.Node] {
		j.counts.Excused++
		return true
	}
	return false
}

// outdone reports whether the connection of another node to the control plane is stalled, so that a
// node may take older content over from that.
func (j *judge) outdone(name string) bool {
	return slices.ContainsFunc(j.world.nodes, func(n *node) bool {
		return n.name != name && n.ranLately() && j.originStalled(n.name)
	})
}

// lookAtLate notes which nodes may have taken older content over since their network to the clients
// became slow: clients get that late.
func (j *judge) lookAtLate() {
	for _, n := range j.world.nodes {
		j.overtaken[n.name] = j.late(n.name) && (j.overtaken[n.name] || j.outdone(n.name))
	}
}

// hasNone reports whether a client has none of the resources that a response says are removed.
func (j *judge) hasNone(e *record.Event) bool {
	v := j.clients[e.Client]
	return v != nil && e.Delta && !slices.ContainsFunc(e.Removed, func(name string) bool { return v.held[e.Type][name] })
}

// misled reports whether a node that had newer content may have older by now from another one, for
// the same reason: that owns the key, or, while the control plane is away, holds what it had and
// takes it for current until its connection broke.
func (j *judge) misled(name string) bool {
	return slices.ContainsFunc(j.world.nodes, func(n *node) bool {
		return n.name != name && n.ranLately() && j.originStalled(n.name) && j.world.network.passes(name, n.name)
	})
}

// originStalled reports whether the connection of a node to the control plane is stalled, or
// was so when the node could last learn what it missed; see lookAtStalled.
func (j *judge) originStalled(node string) bool {
	at, ever := j.stalled[node]
	return j.world.network.stalls(node, originHost) || ever && time.Since(at) < calm
}

// lookAtStalled notes which nodes cannot learn what they missed while their connections to the
// control plane were stalled, since that is away. They take what they have for what it served
// until the connection broke.
func (j *judge) lookAtStalled() {
	if len(j.world.originBy) == 0 {
		return
	}
	for _, n := range j.world.nodes {
		if j.originStalled(n.name) {
			j.stalled[n.name] = time.Now()
		}
	}
}

// knows is a node that has a resource at least as it was at a time, which the node of a client,
// another one or the same, should know: it has sent it to a client that it serves now, or a client that
// returned with it went on to have it while nothing was wrong. What a client returned with
// proves nothing by itself: it keeps that also where the node has nothing better. Nor does what
// was sent in the same instant, since responses on different streams have no order. Empty for none.
func (j *judge) knows(of *view, id resourceID, least int) string {
	node := of.stream.node
	for _, c := range j.clients {
		if c.client.Key != id.key || !j.serves(c.stream) || !c.stream.answers(id.typeURL) {
			continue
		}
		if at, ok := c.stream.has[id]; !ok || at < least || c != of && time.Since(c.stream.answered[id.typeURL]) == 0 {
			continue
		}
		if c.stream.node == node || j.world.redisWell() && j.calm(node, c.stream.node, redisHost) {
			return c.stream.node
		}
	}
	return ""
}

// lookAtReturned notes what clients went on to have while nothing was wrong: a client that
// returns with what is current gets no answer that names it, and its node has it.
func (j *judge) lookAtReturned() {
	if len(j.world.originBy) > 0 || !j.world.redisWell() || !j.calm(j.world.hosts()...) {
		return
	}
	for _, c := range j.clients {
		if !j.serves(c.stream) || time.Since(c.stream.opened) < calm {
			continue
		}
		for id, at := range c.past {
			if j.world.to.Since()-j.changed[id] >= calm {
				c.stream.has[id] = at
			}
		}
	}
}
