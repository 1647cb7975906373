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

// orphaned notes what a delta stream for all types loses: with the removal guard, endpoints
// stay as long as the client has their cluster, unless the control plane has the cluster
// without them, or took them away first (K16, E8).
func (j *judge) orphaned(c *view, e *record.Event) {
	if !j.world.plan.Guard || !e.Delta || e.Type != xdstest.EndpointType || c.held[xdstest.ClusterType] == nil {
		return
	}
	for _, name := range e.Removed {
		cluster, endpoints := resourceID{c.client.Key, xdstest.ClusterType, name}, resourceID{c.client.Key, e.Type, name}
		if c.held[e.Type][name] && c.held[xdstest.ClusterType][name] && j.lacks(cluster) && j.lacks(endpoints) && j.changed[cluster] <= j.changed[endpoints] {
			j.orphans = append(j.orphans, orphan{c.client.Client, name, time.Now(), *e})
		}
	}
}

// lookAtOrphans judges what is still lost.
func (j *judge) lookAtOrphans() (all []check.Contradiction) {
	var left []orphan
	for _, o := range j.orphans {
		c := j.clients[o.client]
		switch {
		case !c.held[xdstest.ClusterType][o.name] || c.held[xdstest.EndpointType][o.name] || !j.lacks(resourceID{c.client.Key, xdstest.ClusterType, o.name}):
		case c.stream == nil || time.Since(o.since) < orphanedFor:
			left = append(left, o)
		default:
			all = append(all, found("Children", &o.event, "client %s has lost the endpoints of cluster %s, which it still has: the guard holds that back", o.client, o.name)...)
		}
	}
	j.orphans = left
	return all
}

// lacks reports whether the control plane has not a resource that it had.
func (j *judge) lacks(id resourceID) bool {
	h := j.histories[id]
	return h != nil && h.serials[len(h.serials)-1] == absent
}
