package sim

import (
	"encoding/json"
	"strings"
	"time"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// claim is that a node has claimed a key, as Redis has it.
type claim struct {
	epoch string
	since time.Time // when that was first seen
}

// tierHead is a tier head, as Redis has it.
type tierHead struct {
	epoch string
	owner string
	at    time.Time
}

// readHead reads a tier head; ok is false where there is none.
func readHead(text string) (h tierHead, ok bool) {
	var rest struct {
		Owner string `json:"owner"`
		At    int64  `json:"at"`
	}
	parts := strings.SplitN(text, " ", 3)
	if len(parts) < 3 || json.Unmarshal([]byte(parts[2]), &rest) != nil {
		return h, false
	}
	return tierHead{epoch: parts[0], owner: rest.Owner, at: time.UnixMilli(rest.At)}, true
}

// writesWithin is how long a new owner may take to write tier heads of what the control plane
// has confirmed to it: well below the time for which it leaves others (tier.newer_state_timeout).
const writesWithin = 2 * time.Second

// lookAtHeads judges what Redis has of keys that another node has claimed: a new owner that
// got what it has from the control plane itself replaces older tier heads at once (K12).
func (j *judge) lookAtHeads() (all []check.Contradiction) {
	if !j.world.redisWell() {
		return nil
	}
	for i := range j.world.plan.Keys {
		key := keyName(i)
		kept := j.world.redis.server.Hash("xdsrelay:{" + key + "}:head")
		if c := j.claims[key]; c.epoch != kept["epoch"] {
			j.claims[key] = claim{kept["epoch"], time.Now()}
			continue
		} else if c.epoch == "" || time.Since(c.since) < writesWithin+tick {
			continue
		}
		all = append(all, j.replaced(key, kept)...)
	}
	return all
}

// replaced judges the tier heads of a key that was claimed long enough ago, while all nodes
// that run know of one another, and so which of them owns it.
func (j *judge) replaced(key string, kept map[string]string) []check.Contradiction {
	older := make(map[string]tierHead)
	for field, text := range kept {
		typeURL, is := strings.CutPrefix(field, "type/")
		if h, ok := readHead(text); is && ok && h.epoch != kept["epoch"] && xdstest.FullState(typeURL) {
			older[typeURL] = h
		}
	}
	if len(older) == 0 {
		return nil
	}
	names := []string{redisHost, originHost}
	var members []shard.Member
	for _, n := range j.world.nodes {
		if n.relay != nil {
			names, members = append(names, n.name), append(members, shard.Member{Name: n.name})
		}
	}
	owner, ok := shard.NewView(members).Owner(key)
	if !ok || len(j.world.originBy) > 0 || !j.calm(names...) {
		return nil
	}
	for typeURL, h := range older {
		if name := j.confirmed(owner.Name, key, typeURL, h); name != "" {
			return found("Heads", &record.Event{At: j.world.to.Since(), Node: owner.Name, Key: key, Type: typeURL},
				"node %s owns %s for %s, and has not replaced the tier head of %s by %s, though the control plane has sent it %s since that ended",
				owner.Name, key, time.Since(j.claims[key].since), record.ShortType(typeURL), h.owner, name)
		}
	}
	return nil
}

// confirmed is a resource that the new owner of a key got from the control plane before it
// claimed the key, and after the node that had written the tier head ended: in between there
// is no owner that it could have got it from. What it got before a gap in its time may be old, as
// far as it knows. Empty for none.
func (j *judge) confirmed(owner, key, typeURL string, h tierHead) string {
	claimed, writer := j.claims[key].since, j.world.node(h.owner)
	ended, ever := j.ended[h.owner]
	if writer == nil || !ever || writer.relay != nil && writer.since.Before(claimed) {
		return ""
	}
	if n := j.world.node(owner); n.clock.lastGap().After(ended) {
		ended = n.clock.lastGap()
	}
	for _, c := range j.clients {
		if c.stream == nil || c.stream.node != owner || c.client.Key != key || !c.stream.answers(typeURL) || !c.stream.answered[typeURL].Before(claimed.Add(-tick)) {
			continue
		}
		for id, at := range c.stream.has {
			changed := j.timeOf(j.changed[id])
			if id.typeURL == typeURL && at == len(j.histories[id].serials)-1 && changed.After(ended) && changed.After(h.at.Add(tick)) {
				return id.name
			}
		}
	}
	return ""
}

// timeOf is when something was recorded.
func (j *judge) timeOf(at time.Duration) time.Time { return time.Now().Add(at - j.world.to.Since()) }

// blackout is that no node of the tier was left.
type blackout struct {
	at   time.Time // when the last one ended; zero for never
	calm bool      // nothing was wrong before, but that nodes ended, all within a second
}

const (
	// written is how long an owner takes at most to write the tier head of a change.
	written = 300 * time.Millisecond
	// waitsForHead is for how long a client with newer content is not sent older, which a tier
	// head proves to be older: a little less than tier.newer_state_timeout.
	waitsForHead = 4 * time.Second
)

// blackedOut notes when no node is left.
func (j *judge) blackedOut() {
	names := []string{redisHost, originHost}
	first := time.Now()
	for _, n := range j.world.nodes {
		if n.relay != nil {
			return
		}
		if names = append(names, n.name); !n.since.IsZero() && time.Since(n.since) < calm && n.since.Before(first) {
			first = n.since
		}
	}
	j.blackout = blackout{at: time.Now(), calm: time.Since(first) <= time.Second && len(j.world.originBy) == 0 && j.world.redisWell() && j.linked(names...)}
}

// proven reports whether the tier head proves to the node of a client, for long enough, that it
// has an older record of what is asked for by name than the client: all nodes have ended at
// once, after the tier head was written and before the record was, and have restored that.
func (j *judge) proven(id resourceID, at int) bool {
	if j.world.plan.Kept != "redis" || xdstest.FullState(id.typeURL) || !j.blackout.calm || j.parted[redisHost].After(j.blackout.at) || !j.world.redisWell() {
		return false
	}
	if at != len(j.histories[id].serials)-1 || j.timeOf(j.changed[id]).After(j.blackout.at.Add(-written)) {
		return false
	}
	for _, n := range j.world.nodes {
		if n.relay == nil {
			continue
		}
		if first, ever := j.first[want{node: n.name, key: id.key}]; n.since.Before(j.blackout.at) || ever && time.Since(first) > waitsForHead {
			return false
		}
	}
	return true
}
