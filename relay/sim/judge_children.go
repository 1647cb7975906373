package sim

import (
	"slices"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// orphaned judges a response of a delta stream for all types: with the removal guard,
// endpoints stay as long as the client has their cluster, unless the control plane has
// the cluster without them, or took them away first (K16, E8).
func (j *judge) orphaned(c *view, e *record.Event) []check.Contradiction {
	if !j.world.plan.Guard || !e.Delta || e.Type != xdstest.EndpointType || c.held[xdstest.ClusterType] == nil {
		return nil
	}
	for _, name := range e.Removed {
		cluster, endpoints := resourceID{c.client.Key, xdstest.ClusterType, name}, resourceID{c.client.Key, e.Type, name}
		if !c.held[e.Type][name] || !c.held[xdstest.ClusterType][name] || !j.lacks(cluster) || !j.lacks(endpoints) {
			continue
		}
		if j.changed[cluster] <= j.changed[endpoints] {
			return found("Children", e, "client %s loses the endpoints of cluster %s, which it still has: the guard holds that back", c.client.Client, name)
		}
	}
	return nil
}

// lacks reports whether the control plane has not a resource that it had.
func (j *judge) lacks(id resourceID) bool {
	h := j.histories[id]
	return h != nil && slices.Index(h.serials, absent) >= 0 && h.serials[len(h.serials)-1] == absent
}
