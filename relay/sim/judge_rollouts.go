package sim

import (
	"slices"
	"time"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// exposure is which clients got content that they reject, of the newest revision of a key.
type exposure struct {
	since map[string]time.Time // by client: when it got that first
	// replaced counts those of them that lost their streams: their answers may not have arrived, and
	// others may have taken their place.
	replaced int
	// passed says that a node had nothing to compare it with, so that all clients may get it, also later: it
	// is what rollouts start from, and what nodes store.
	passed bool
}

// revised notes that the control plane has another revision of a key.
func (j *judge) revised(e *record.Event) {
	if slices.Contains(staged, e.Type) {
		delete(j.exposures, e.Key)
		j.revisedAt[e.Key] = time.Now()
	}
}

// rejected judges content that a client rejects.
//
// Bounded: the scouts get it, one for each version of the client software, of which there is one here.
// Refused: as long as the control plane sends nothing else, a client that has rejected it does not get it
// again.
func (j *judge) rejected(c *view, e *record.Event) (all []check.Contradiction) {
	if c.stream != nil {
		c.stream.rejected[e.Type] = true
	}
	x := j.exposures[e.Key]
	if x == nil {
		x = &exposure{since: make(map[string]time.Time)}
		j.exposures[e.Key] = x
	}
	is := func(r record.Resource) bool { return r.Serial != 0 && j.unchecked[r.Serial] }
	if x.passed = x.passed || j.isUnknown(e.Key) || slices.ContainsFunc(e.Resources, is); x.passed {
		for _, r := range e.Resources {
			j.unchecked[r.Serial] = true
		}
		j.counts.Excused++
		return nil
	}
	first := e.Resources[0]
	if at, ever := x.since[e.Client]; !ever {
		x.since[e.Client] = time.Now()
	} else if time.Since(at) > calm {
		all = found("Refused", e, "client %s gets %s@%d again, %s after it has rejected that", e.Client, first.Name, first.Serial, time.Since(at))
	}
	if most := mostScouts + x.replaced; len(x.since) > most {
		all = append(all, found("Bounded", e, "%d clients have got %s@%d, which they reject; expected at most %d", len(x.since), first.Name, first.Serial, most)...)
	}
	return all
}

// isUnknown reports whether a node may not know what was released of a key before its newest revision: it
// knows no other node, or none that runs had clients of the key then. What nodes store on their disks is not
// known to others, and in a tier only the owner of a key stores it: a follower that has been restarted has
// nothing.
func (j *judge) isUnknown(key string) bool {
	return slices.ContainsFunc(j.world.nodes, func(n *node) bool { return n.relay != nil && n.blind }) || j.world.plan.Kept == "directory" && !slices.ContainsFunc(j.world.nodes, func(n *node) bool {
		at := j.first[want{node: n.name, key: key}]
		revised := j.revisedAt[key]
		return n.relay != nil && !at.IsZero() && at.Before(revised) && (len(j.world.nodes) == 1 || n.since.Before(revised))
	})
}

// mostScouts is how many scouts a rollout has: all clients have the same software.
const mostScouts = 1

// left notes that a client has lost its stream.
func (j *judge) left(e *record.Event) {
	if x := j.exposures[e.Key]; x != nil && !x.since[e.Client].IsZero() {
		x.replaced++
	}
}

// isStaged reports whether content of a type is released to a few clients first. These get what was
// released before again if it is not released.
func (j *judge) isStaged(typeURL string) bool {
	return j.world.plan.Rollouts && slices.Contains(staged, typeURL)
}

// stagedBack reports whether what a validator of recordings has found is how rollouts end: a canary goes
// back to what was released, also of what it has rejected and so never had.
func (j *judge) stagedBack(c *check.Contradiction) bool {
	if c.Guarantee == "Resumable" {
		v, typeURL := j.clients[c.Event.Client], c.Event.Type
		if typeURL == xdstest.EndpointType { // they follow their cluster (E3), also one that the client rejects
			typeURL = xdstest.ClusterType
		}
		return v != nil && v.stream != nil && v.stream.rejected[typeURL]
	}
	return j.isStaged(c.Event.Type) && (c.Guarantee == "Ordered" || c.Guarantee == "DeleteOnlyIfDeleted")
}
