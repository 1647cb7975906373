package sim

import (
	"maps"
	"slices"
	"time"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// look judges how the world is now: nobody is without configuration who could have it.
func (j *judge) look() (all []check.Contradiction) {
	passed := time.Since(j.last)
	j.last = time.Now()
	if passed == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(j.clients)) {
		all = append(all, j.lookAt(j.clients[name], passed)...)
	}
	j.lookAtReached(passed)
	all = append(all, j.lookAtNodes()...)
	all = append(all, j.lookAtHeads()...)
	j.lookAtHad()
	j.lookAtHolders()
	j.lookAtStalled()
	j.lookAtLate()
	j.lookAtReturned()
	return append(all, j.lookAtOrphans()...)
}

func (j *judge) lookAt(c *view, passed time.Duration) []check.Contradiction {
	for typeURL := range c.cold {
		e := &record.Event{At: j.world.to.Since(), Client: c.client.Client, Key: c.client.Key, Type: typeURL}
		if c.away || !j.servedSomewhere(c, typeURL) {
			c.cold[typeURL] = 0
		} else if c.cold[typeURL] += passed; c.cold[typeURL] > anywhereWithin {
			return found("Served", e, "client %s has had no %s for %s, though a node could serve it",
				c.client.Client, record.ShortType(typeURL), c.cold[typeURL])
		}
		s := c.stream
		if s == nil || s.answers(typeURL) {
			continue
		}
		holder := j.holder(s.node, c.client.Key, typeURL)
		if holder == "" {
			holder = j.successor(s.node, c.client.Key, typeURL)
		}
		if holder == "" || !j.world.node(s.node).ready() {
			s.waits[typeURL] = 0
		} else if s.waits[typeURL] += passed; s.waits[typeURL] > servedWithin+tick {
			e.Node = s.node
			return found("ServedByAll", e, "client %s gets no %s from %s, which is ready, for %s, though %s has it",
				c.client.Client, record.ShortType(typeURL), s.node, s.waits[typeURL], holder)
		}
	}
	return nil
}

// turnedAway judges a stream that ends UNAVAILABLE without an answer, by the same run of the
// node that it was opened to: a client learns of a loss of power when the machine is back.
func (j *judge) turnedAway(c *view, s *stream, e *record.Event) []check.Contradiction {
	if len(s.answered) > 0 || time.Since(s.opened) < servedWithin || !j.serves(s) {
		return nil
	}
	return j.withheld(c, s, e, j.world.node(s.node).ready())
}

// withheld judges what a node has for a client that it sends away. A node that is not ready may send
// clients to those that are, but what another node has handed over none of them may be without.
func (j *judge) withheld(c *view, s *stream, e *record.Event, ready bool) []check.Contradiction {
	for typeURL := range c.client.Wants {
		holder := ""
		if ready {
			holder = j.holderOf(s.node, c.client.Key, typeURL, j.misses(c, typeURL))
		}
		if holder == "" && !c.proves(typeURL) {
			holder = j.successor(s.node, c.client.Key, typeURL)
		}
		if holder != "" {
			return found("ServedByAll", e, "client %s is sent away by %s (ready: %t) after %s without an answer, though %s has %s",
				c.client.Client, s.node, ready, time.Since(s.opened), holder, record.ShortType(typeURL))
		}
	}
	return nil
}

// misses returns whether another client has something of a type that this one wants and has
// not. A client without delta that returns with just what its node has of a type is sent
// nothing of it (B39): if nothing is known of the other types, its stream ends without an
// answer, as it should (K15). Of types that are asked for by name, nodes may know nothing of
// some names, and then there is nothing to say to a client that has the others. A client that
// returned with a name may have got no more than an error of it, so that its node has only
// what it has sent. Without delta no response says that such a resource has gone, so that
// what it has proves nothing.
func (j *judge) misses(v *view, typeURL string) func(other *view) bool {
	return func(other *view) bool {
		if xdstest.FullState(typeURL) {
			return !v.proves(typeURL) || !j.equal(v, other, typeURL)
		}
		for _, name := range v.client.Wants[typeURL] {
			_, sent := other.stream.has[resourceID{v.client.Key, typeURL, name}]
			if sent && other.client.Delta && other.held[typeURL][name] && !v.held[typeURL][name] {
				return true
			}
		}
		return false
	}
}

// proves reports whether the version that a client quotes when it returns says what it has:
// it wants everything of a full-state type, and was given a version that a node has made of
// the content. The control plane's own versions are shorter.
func (v *view) proves(typeURL string) bool {
	return !v.client.Delta && len(v.client.Wants[typeURL]) == 0 && len(v.version[typeURL]) == len(resource.Digest{}.Hex())
}

// equal reports whether a client has the same content of a type as the node of another one has for
// sure. What a delta client returned with is no proof: a node that knows nothing of it does not
// remove it either.
func (j *judge) equal(v, other *view, typeURL string) bool {
	for _, held := range []map[string]bool{v.held[typeURL], other.held[typeURL]} {
		for name := range held {
			id := resourceID{v.client.Key, typeURL, name}
			if _, sent := other.stream.has[id]; !sent && other.client.Delta && other.held[typeURL][name] {
				continue
			}
			if v.held[typeURL][name] != other.held[typeURL][name] {
				return false
			}
			if h := j.histories[id]; h == nil || h.serials[v.past[id]] != h.serials[other.past[id]] {
				return false
			}
		}
	}
	return true
}

// holder is a node from which another one, or the same, can have a type of a key: it runs,
// is a member that both know, and a client has it from there now. Empty for none.
func (j *judge) holder(node, key, typeURL string) string {
	return j.holderOf(node, key, typeURL, func(*view) bool { return true })
}

// holderOf is holder for what only some clients have.
func (j *judge) holderOf(node, key, typeURL string, has func(*view) bool) string {
	if !j.running(node) || !j.calm(node, clientsHost) {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(j.clients)) {
		c := j.clients[name]
		if c.client.Key != key || !j.serves(c.stream) || !c.stream.answers(typeURL) || !has(c) {
			continue
		}
		if c.stream.node == node || j.world.redisWell() && j.calm(node, c.stream.node, redisHost) {
			return c.stream.node
		}
	}
	return ""
}

// servedSomewhere reports whether a client finds a node that could serve it. A client stays at a
// node that has sent it something, if only an old record of other types: while that node reaches
// neither the control plane nor a node that has more, it cannot know that there is more (K15). So
// does one whose node has lost its power, or whose connection has stalled, since it has no keepalive.
func (j *judge) servedSomewhere(c *view, typeURL string) bool {
	for _, n := range j.world.nodes[:j.world.plan.Nodes] {
		if c.stream != nil && n.name != c.stream.node && (len(c.stream.answered) > 0 || !j.serves(c.stream) || j.world.network.stalls(c.stream.node, clientsHost)) {
			continue
		}
		if n.relay == nil || !j.calm(n.name, clientsHost) {
			continue
		}
		if len(j.world.originBy) == 0 && j.calm(n.name, originHost) || j.holder(n.name, c.client.Key, typeURL) != "" {
			return true
		}
	}
	return false
}
