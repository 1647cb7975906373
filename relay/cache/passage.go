package cache

import "sync/atomic"

// Passage is why clients see a change at once although the type has a gate.
type Passage uint8

const (
	heldBack Passage = iota // they do not
	// passesEndpoints: endpoint sets are held back only while stable clients would lose all endpoints. These
	// changes are frequent, and are not counted.
	passesEndpoints
	// PassesTTL: the resource has or had a TTL.
	PassesTTL
	// PassesCollection: it has aliases, or belongs to a collection that a client asks for.
	PassesCollection
	// PassesRequested: a client waits for the name, and no client had the resource.
	PassesRequested
	// PassesFirst: it is part of the first configuration of the key.
	PassesFirst
	passageCount
)

// passages counts changes that passed, by why. All methods are safe for concurrent use.
type passages [passageCount]atomic.Uint64

func (p *passages) count(why Passage) {
	if why != passesEndpoints {
		p[why].Add(1)
	}
}

// Passed returns how many changes clients saw at once for a reason, although the type has a gate. Those of
// endpoints are not counted.
func (c *Cache) Passed(why Passage) uint64 { return c.passages[why].Load() }
