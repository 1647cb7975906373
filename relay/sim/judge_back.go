package sim

import (
	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
)

// sentBack judges a response: whoever has newer content does not get older, unless the
// node could not know that there is newer.
func (j *judge) sentBack(c *view, e *record.Event) []check.Contradiction {
	step := func(name string, serial int) []check.Contradiction {
		held, ok := c.held[e.Type][name]
		if !ok {
			return nil
		}
		h := j.histories[resourceID{c.client.Key, e.Type, name}]
		if h.newest(serial) >= h.newest(held) {
			return nil
		}
		knows := j.knows(c.stream.node, resourceID{c.client.Key, e.Type, name}, h, held)
		if knows == "" {
			j.counts.Excused++
			return nil
		}
		return found("NotBack", e, "client %s is sent back from %s@%d to @%d of %s by %s, though %s has newer",
			c.client.Client, name, held, serial, record.ShortType(e.Type), e.Node, knows)
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

// knows is a node that has content at least as new as some, which another one, or the
// same, should know: a client has it from there now. Empty for none.
func (j *judge) knows(node string, id resourceID, h *history, least int) string {
	for _, c := range j.clients {
		if c.stream == nil || c.client.Key != id.key || !j.running(c.stream.node) || !c.stream.answered[id.typeURL] {
			continue
		}
		serial, ok := c.held[id.typeURL][id.name]
		if !ok || h.newest(serial) < h.newest(least) {
			continue
		}
		if c.stream.node == node || j.world.redisWell() && j.calm(node, c.stream.node, redisHost) {
			return c.stream.node
		}
	}
	return ""
}
