package sim

import (
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
)

// reached is what a node can have reached since it started.
type reached struct {
	redis  bool
	origin bool
	// served is for how long nothing was wrong between it and a control plane that ran, and
	// retries says that something was before, so that it may try again after a pause.
	served  time.Duration
	retries bool
	asked   time.Time // when it was last asked for its keys
}

// lookAtReached notes what nodes can have reached while some time passed.
func (j *judge) lookAtReached(passed time.Duration) {
	up := len(j.world.originBy) == 0
	if j.outage += passed; up {
		j.outage = 0
	}
	for _, n := range j.world.nodes {
		if n.relay == nil {
			continue
		}
		r := j.reached[n.name]
		if r == nil {
			r = &reached{redis: !n.blind} // Redis may have been in reach for no longer than a moment
			j.reached[n.name] = r
		}
		r.redis = r.redis || j.world.redis.host != nil && j.world.network.passes(n.name, redisHost)
		r.origin = r.origin || up && j.world.network.passes(n.name, originHost)
		if up && j.world.network.fine(n.name, originHost) {
			r.served += passed
		} else if r.served < calm {
			r.retries = true
		}
	}
}

// lookAtNodes judges what nodes that have just started do with what they cannot know yet.
func (j *judge) lookAtNodes() (all []check.Contradiction) {
	for _, n := range j.world.nodes {
		r := j.reached[n.name]
		if n.relay == nil || r == nil {
			continue
		}
		if j.waitsForMembers(n, r) && n.ready() {
			all = append(all, found("Ready", &record.Event{At: j.world.to.Since(), Node: n.name},
				"node %s is ready %s after its start, and Redis, which says which nodes there are, was out of its reach all the time", n.name, time.Since(n.since))...)
		}
		if better := j.ownsNothing(n, r); better != "" {
			all = append(all, j.owned(n, better)...)
		}
	}
	return all
}

// waitsForMembers reports whether a node that started a moment ago cannot have heard which
// nodes there are: it takes itself for the only one, and has nobody to ask for content, so it
// is not ready (K15).
func (j *judge) waitsForMembers(n *node, r *reached) bool {
	return !r.redis && time.Since(n.since) < config.Default().Tier.OwnerTimeout
}

// askedEvery is how often a node is asked for its keys.
const askedEvery = 5 * time.Second

// ownsNothing reports whether a node should own no key, since it has not reached the control
// plane since it started, and another node has, whose name it returns (K14). It may own keys
// until a node says that the control plane is out of reach, which takes less than calm.
func (j *judge) ownsNothing(n *node, r *reached) (better string) {
	if r.origin || time.Since(r.asked) < askedEvery || !j.world.redisWell() || !j.nodesAreCalm() {
		return ""
	}
	return j.hasServed(n)
}

// owned asks a node for its keys, and judges that it owns one although another node has reached
// the control plane.
func (j *judge) owned(n *node, better string) []check.Contradiction {
	j.reached[n.name].asked = time.Now()
	var page ops.Keys
	if err := j.world.get(n, "/api/v1/keys", &page); err != nil {
		return found("Status", &record.Event{At: j.world.to.Since(), Node: n.name}, "node %s says nothing of its keys: %v", n.name, err)
	}
	key, since := ownedBy(&page, n.name)
	if key == "" || time.Since(since) <= calm {
		return nil
	}
	return found("Owner", &record.Event{At: j.world.to.Since(), Node: n.name, Key: key},
		"node %s, which has not reached the control plane since it started, owns %s for %s, though %s has", n.name, key, time.Since(since), better)
}

// ownedBy is the key that a node owns for longest, by what it and the members say, and since
// when; empty for none.
func ownedBy(page *ops.Keys, node string) (key string, since time.Time) {
	for _, k := range page.Keys {
		for _, at := range k.Nodes {
			if at.Node == node && at.State == "owner" && k.Owner == node && (key == "" || at.Since.Before(since)) {
				key, since = k.Key, at.Since
			}
		}
	}
	return key, since
}

// retriesWithin is the longest pause before a node tries to reach the control plane again
// (upstream.backoff), with its jitter.
const retriesWithin = 36 * time.Second

// hasServed is a node other than one that has been well with the control plane for long since it
// started; empty for none.
func (j *judge) hasServed(than *node) string {
	for _, n := range j.world.nodes {
		if r := j.reached[n.name]; n != than && n.relay != nil && r != nil && r.served >= calm && (!r.retries || r.served >= calm+retriesWithin) {
			return n.name
		}
	}
	return ""
}
