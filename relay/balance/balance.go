// Package balance decides how many clients a node of a tier sends away, and when it
// takes no more. It only calculates: what it is given is how it is.
package balance

import (
	"math"
	"time"

	"xdsrelay/shard"
)

// Limits say how far above its share of the clients a node may be, in percent of the
// share.
type Limits struct {
	// Headroom is what a node keeps, Refuse is where it takes no more.
	Headroom, Refuse int
	// Shed is how many percent of what is above Headroom go in a minute.
	Shed int
}

// few is how many clients a node always takes: shares of small numbers say little.
const few = 100

// Share is where a node stands among the others.
type Share struct {
	// Nodes is how many take clients, this one included, and Clients what they have
	// together.
	Nodes, Clients int
	// Keep is how many clients this node keeps in any case, and Most how many it takes.
	Keep, Most int
	// Others is how many clients the other nodes have, Room how many more they would
	// keep.
	Others, Room int
}

// ShareOf is the share of the node called self, which has clients now: the others are
// as they said last.
func ShareOf(members []shard.Member, self string, clients int, l Limits) Share {
	s := Share{Nodes: 1, Clients: clients}
	takes := func(m *shard.Member) bool { return m.Name != self && !m.Draining && !m.Cut }
	for i := range members {
		m := &members[i]
		if m.Name == self {
			continue
		}
		s.Others += m.Clients
		s.Clients += m.Clients // also those of nodes that end, who are about to come
		if takes(m) {
			s.Nodes++
		}
	}
	s.Keep = above(s.Clients, s.Nodes, l.Headroom)
	s.Most = max(above(s.Clients, s.Nodes, l.Refuse), few)
	for i := range members {
		if m := &members[i]; takes(m) {
			s.Room += max(s.Keep-m.Clients, 0)
		}
	}
	return s
}

// above is ⌈clients/nodes × (1 + percent/100)⌉.
func above(clients, nodes, percent int) int {
	return (clients*(100+percent) + 100*nodes - 1) / (100 * nodes)
}

// Surplus is how many of its clients a node should send away: those that it does not
// keep, as far as others have room for them.
func (s Share) Surplus(clients int) int { return max(min(clients-s.Keep, s.Room), 0) }

// Full tells whether a node refuses clients beyond Most: only if they can go to
// others.
func (s Share) Full() bool { return s.Room > 0 }

// Pace spreads what is sent away over time. The zero Pace has sent nobody away.
type Pace struct {
	owed   float64       // clients that should have gone
	credit int           // how many may go until the others have said something new
	heard  int           // Share.Others at the time
	left   time.Duration // until credit is given all the same
}

// patience is how long clients that were sent away may stay unseen until more go.
const patience = 10 * time.Minute

// Due is how many clients to send away now, elapsed after the last call. jitter, from
// 0 to 1, makes it more or less: over time it should be a half.
//
// The surplus halves every few minutes rather than going all at once. And clients
// that were sent away have to show up elsewhere: until the others say of themselves
// that they have more or fewer than before, no more go than in a minute, for a while.
func (p *Pace) Due(s Share, clients int, l Limits, elapsed time.Duration, jitter float64) int {
	surplus := s.Surplus(clients)
	if surplus == 0 {
		*p = Pace{}
		return 0
	}
	minute := max(float64(surplus)*float64(l.Shed)/100, 1)
	if p.left -= elapsed; p.left <= 0 || s.Others != p.heard {
		p.left, p.heard, p.credit = patience, s.Others, int(math.Ceil(minute))
	}
	p.owed += minute * elapsed.Minutes() * 2 * jitter
	n := min(int(p.owed), p.credit, surplus)
	p.owed = min(p.owed-float64(n), minute) // what could not go is not made up for at once
	p.credit -= n
	return n
}
