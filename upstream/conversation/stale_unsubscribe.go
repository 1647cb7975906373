package conversation

import (
	"slices"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// A server ignores a SotW request that crosses a response (B8). It then still counts a name that
// the request dropped as subscribed. If a client wants the name again when the relay answers the
// response, the answer lists it as if it had never been dropped, and go-control-plane stays silent
// about it until the resource changes. So the answer omits such a name once more, and the next
// request subscribes to it again (C9).

// maxOmissions is how many answers omit a name whose resource has not arrived. A server that waits
// for each answer (B9) accepts the first of them; a server that sends several responses in a row
// may accept only the last. More omissions would not help, and some servers respond to each
// request, even where the name does not exist.
const maxOmissions = 3

// staleUnsubscribe is a name that a request dropped; the server may have ignored that request as
// stale.
type staleUnsubscribe struct {
	name      string // in the spelling of the request
	omissions int    // answers that omitted it since then
}

// noteUnsubscribed records the names that a request drops: names of the last answer, and all
// resources of a wildcard. A response of a full-state type has all resources that the server counts
// as subscribed, so nothing is in doubt there.
func (c *Conversation) noteUnsubscribed(names []string, wildcard bool) {
	if c.Type.FullState {
		return
	}
	for _, n := range names {
		key := resource.Canonical(n)
		_, known := c.unsubscribed[key]
		if _, heard := slices.BinarySearch(c.lastNames, n); !heard && !known && !wildcard {
			continue // the server has not sent it, so it cannot count it as subscribed
		}
		if c.unsubscribed == nil {
			c.unsubscribed = make(map[string]staleUnsubscribe)
		}
		c.unsubscribed[key] = staleUnsubscribe{name: n}
	}
}

// Omit returns the names that the answer to a response must omit although they are
// wanted. The result is sorted.
func (c *Conversation) Omit(rsp *resource.Response) (out []string) {
	if len(c.unsubscribed) == 0 {
		return nil
	}
	wanted := func(n string) bool {
		_, is := slices.BinarySearch(plain(c.Names), n)
		return is
	}
	for _, res := range rsp.Resources {
		if d, left := c.unsubscribed[res.Key]; left && wanted(d.name) {
			delete(c.unsubscribed, res.Key) // the relay has just received what the server counts as subscribed
		}
	}
	for key, d := range c.unsubscribed {
		if wanted(d.name) {
			out = append(out, d.name)
		}
		if d.omissions++; d.omissions == maxOmissions {
			delete(c.unsubscribed, key)
		} else {
			c.unsubscribed[key] = d
		}
	}
	slices.Sort(out)
	return out
}

// resubscribed returns the names of a demand that were unsubscribed and subscribed again before a
// request was sent, and of which nothing is known (C9). All lists are sorted.
func resubscribed(d *cache.Demand, missing []string) []string {
	return slices.DeleteFunc(slices.Clone(d.Again), func(n string) bool {
		_, is := slices.BinarySearch(missing, n)
		return !is
	})
}

// plain returns the sorted names of a request without the wildcard.
func plain(names []string) []string {
	if len(names) > 0 && names[0] == star {
		return names[1:]
	}
	return names
}

// Without returns names except those in drop, which is sorted.
func Without(names, drop []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		_, gone := slices.BinarySearch(drop, n)
		return gone
	})
}
