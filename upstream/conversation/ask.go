package conversation

import (
	"slices"

	"xdsrelay/relay/cache"
)

// star is the name of the wildcard.
const star = "*"

// Act is what to do for a demand.
type Act uint8

const (
	// Nothing: the server was asked for all of it.
	Nothing Act = iota
	// Send: send a request.
	Send
	// DropAndSend: send a request that unsubscribes from names first, since the server may believe
	// that the relay has them (C9).
	DropAndSend
	// OpenNewStream: end the stream, and ask on a new one.
	OpenNewStream
)

var actNames = [...]string{"Nothing", "Send", "DropAndSend", "OpenNewStream"}

func (a Act) String() string { return actNames[a] }

// Change is what a request says about the subscription.
type Change struct {
	Names                  []string // SotW
	Subscribe, Unsubscribe []string // delta
}

// Decision is what to do for a demand.
type Decision struct {
	Act Act
	// Drop is the request before, and Twice are names that another one unsubscribes from once more,
	// for [DropAndSend].
	Drop  Change
	Twice []string
	// Change is the request.
	Change
	// First says that it is the first one about the type on this stream.
	First bool
}

// event is what a demand asks for: names says whether it has names, and again whether the wildcard
// has to be answered once more.
func (c *Conversation) event(d *cache.Demand, names, implicit, again bool) Event {
	switch {
	case !d.Wildcard && !names:
		return AskNothing
	case !d.Wildcard:
		return AskNames
	case again && c.Scope != New:
		return AskWildcardAgain
	case implicit && c.Type.Wildcard && !names:
		return AskImplicit
	default:
		return AskWildcard
	}
}

// AskSotW decides what to request for the complete demand d. missing are names that nothing is known
// about. implicit says that the wildcard of types that have such a form is subscribed by a request
// without names, and whole that d is not a change.
func (c *Conversation) AskSotW(d *cache.Demand, missing []string, implicit, whole bool) Decision {
	first := c.Scope == New
	var again []string
	if !first && !whole { // otherwise nothing was subscribed yet, so there is nothing to unsubscribe
		again = resubscribed(d, missing)
	}
	gone := d.Unsubscribe
	if whole {
		gone = Without(plain(c.Names), d.Names)
	}
	leave := c.HasWildcard() && !d.Wildcard
	rest := d.Names
	if len(again) > 0 {
		rest = Without(d.Names, again)
	}
	renew := d.WildcardChanged && !whole
	effect := c.apply(c.event(d, len(rest) > 0, implicit, renew))
	switch {
	case effect&Renew != 0:
		return Decision{Act: OpenNewStream}
	case c.Scope == New: // C7: an empty list would mean the wildcard
		return Decision{}
	}
	c.noteUnsubscribed(gone, leave)
	next := Decision{Act: Send, First: first}
	if len(again) > 0 {
		c.noteUnsubscribed(again, leave)
		next.Act, next.Drop.Names = DropAndSend, list(rest, effect)
		effect = c.apply(c.event(d, len(d.Names) > 0, implicit, renew))
	}
	c.Names = list(d.Names, effect)
	next.Names = c.Names
	return next
}

func list(names []string, effect Effect) []string {
	if effect&Name != 0 {
		return append([]string{star}, names...) // D10
	}
	return names
}

// AskDelta decides what to request for the changes of d, or with whole for the whole demand.
func (c *Conversation) AskDelta(d *cache.Demand, implicit, whole bool) Decision {
	first := c.Scope == New
	if first && !d.Wildcard && len(d.Subscribe) == 0 {
		return Decision{} // a new stream has nothing to unsubscribe
	}
	if len(d.Unsubscribe) > 0 {
		c.apply(Unsubscribed)
	}
	effect := c.apply(c.event(d, len(d.Subscribe) > 0, implicit, whole || d.WildcardChanged))
	if effect&Renew != 0 {
		return Decision{Act: OpenNewStream}
	}
	next := Decision{Act: Send, Change: Change{Subscribe: list(d.Subscribe, effect), Unsubscribe: d.Unsubscribe}, First: first}
	if effect&Leave != 0 {
		next.Unsubscribe = append([]string{star}, next.Unsubscribe...)
	}
	switch {
	case first:
	case len(next.Subscribe)+len(next.Unsubscribe) == 0:
		return Decision{}
	case len(d.Again) > 0:
		next.dropFirst(d, c.HasWildcard())
	}
	return next
}

// dropFirst unsubscribes from names before they are subscribed again (C9): go-control-plane resends a
// resource only to a client that has unsubscribed from it. That is sent twice where an update may
// have crossed the first time.
func (n *Decision) dropFirst(d *cache.Demand, wildcard bool) {
	n.Act, n.Drop.Unsubscribe, n.Twice = DropAndSend, d.Again, d.Twice
	if wildcard {
		return // the request keeps the other unsubscriptions; its wildcard restores their resources
	}
	n.Drop.Unsubscribe, n.Unsubscribe = slices.Concat(n.Unsubscribe, d.Again), nil
	if len(n.Subscribe) > 0 && n.Subscribe[0] == star {
		n.Drop.Subscribe, n.Subscribe = n.Subscribe[:1], n.Subscribe[1:] // B23
	}
}
