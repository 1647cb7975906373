package sim

import (
	"time"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// orphan is endpoints that a client lost while it had their cluster.
type orphan struct {
	client, name string
	since        time.Time
	event        record.Event
}

// orphanedFor is how long a client may have a cluster without its endpoints: those of a
// difference go before their cluster, right before (E5).
const orphanedFor = 2 * time.Second

// shortlyBefore is how long before their cluster endpoints may go so that the guard restores
// them: well below the time for which it remembers them.
const shortlyBefore = 5 * time.Second

// orphaned notes what a delta stream for all types loses: with the removal guard, endpoints
// stay as long as the client has their cluster, unless the control plane has the cluster
// without them, or took them away long before (K16, E8).
func (j *judge) orphaned(c *view, e *record.Event) {
	if !j.world.plan.Guard || !e.Delta || e.Type != xdstest.EndpointType || c.held[xdstest.ClusterType] == nil {
		return
	}
	for _, name := range e.Removed {
		o := orphan{c.client.Client, name, time.Now(), *e}
		if c.held[e.Type][name] && c.held[xdstest.ClusterType][name] && j.lacks(o.endpoints()) {
			j.orphans = append(j.orphans, o)
		}
	}
}

func (o *orphan) cluster() resourceID {
	return resourceID{o.event.Key, xdstest.ClusterType, o.name}
}
func (o *orphan) endpoints() resourceID {
	return resourceID{o.event.Key, xdstest.EndpointType, o.name}
}

// lookAtOrphans judges what is still lost. Endpoints that went before their cluster are
// restored by who remembers them: the same owner of the key.
func (j *judge) lookAtOrphans() (all []check.Contradiction) {
	var left []orphan
	for _, o := range j.orphans {
		c := j.clients[o.client]
		changed, lacks := j.changed[o.cluster()], j.lacks(o.cluster())
		before := changed - j.changed[o.endpoints()]
		switch {
		case !c.held[xdstest.ClusterType][o.name] || c.held[xdstest.EndpointType][o.name] || !j.lacks(o.endpoints()):
		case !lacks && time.Since(o.since) > shortlyBefore, lacks && before > shortlyBefore, lacks && before > 0 && !j.nodesAreCalm():
		case j.world.plan.Kept == "none" && !j.holders.hadClients(o.event.Key, o.event.Type, j.timeOf(j.changed[o.endpoints()])): // nobody is left who had them
		case c.stream == nil || !lacks || time.Since(o.since) < orphanedFor || j.onItsWay(c.stream), before > 0 && j.world.to.Since()-changed < orphanedFor:
			left = append(left, o)
		case !j.world.network.fine(c.stream.node, originHost), j.histories[o.cluster()].isHidden():
			// The control plane sends clusters only after the ACK of those before, and nothing while it is away.
			o.since = time.Now()
			left = append(left, o)
		default:
			all = append(all, found("Children", &o.event, "client %s has lost the endpoints of cluster %s, which it still has: the guard holds that back", o.client, o.name)...)
		}
	}
	j.orphans = left
	return all
}

// onItsWay reports whether the rest of a difference may not have reached a client yet: it goes
// once the client has answered what came before, which takes seconds on a slow network, or its
// stream has just begun.
func (j *judge) onItsWay(s *stream) bool {
	return j.late(s.node) || time.Since(s.opened) < orphanedFor
}

// nodesAreCalm reports whether all nodes have been well for some time.
func (j *judge) nodesAreCalm() bool {
	names := []string{redisHost}
	for _, n := range j.world.nodes {
		names = append(names, n.name)
	}
	return j.calm(names...)
}

// lacks reports whether the control plane has not a resource that it had.
func (j *judge) lacks(id resourceID) bool {
	h := j.histories[id]
	return h != nil && h.serials[len(h.serials)-1] == absent
}
