package robust

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// plan draws rounds by a seed. Every kind of fault has its turn before one comes
// again.
type plan struct {
	random *rand.Rand
	cfg    Config
	dwell  time.Duration // the longest
	deck   []fault
}

// round is what happens between two times of rest.
type round struct {
	faults  []chosen
	away    int           // a key whose clients are away meanwhile; -1 for none
	arrive  int           // a key of which clients start while the faults last; -1 for none
	moves   bool          // whether clients move while the faults last
	changes int           // of the origin, while the faults last
	dwell   time.Duration // how long faults last beside what is waited for
}

// chosen is a fault with its node, -1 for none.
type chosen struct {
	fault
	node int
}

func newPlan(cfg Config) *plan {
	dwell := 2 * time.Second
	if cfg.For > 5*time.Minute {
		dwell = 20 * time.Second // longer than leases and keepalive
	}
	return &plan{random: rand.New(rand.NewPCG(cfg.Seed, 2)), cfg: cfg, dwell: dwell}
}

// next draws a round: one fault, sometimes two of different areas.
func (p *plan) next() round {
	r := round{faults: []chosen{p.draw("")}}
	if p.random.IntN(4) == 0 && !r.faults[0].alone() {
		r.faults = append(r.faults, p.draw(r.faults[0].area))
	}
	if p.random.IntN(4) != 0 { // sometimes nothing changes, and then nothing may be sent
		r.changes = 1 + p.random.IntN(12)
	}
	r.away = -1
	if p.random.IntN(4) == 0 {
		r.away = p.random.IntN(p.cfg.Keys)
	}
	r.arrive = -1
	if p.random.IntN(2) == 0 {
		r.arrive = p.random.IntN(p.cfg.Keys)
	}
	r.moves = p.random.IntN(4) == 0
	r.dwell = upTo(p.random, p.dwell)
	return r
}

// upTo draws a duration, mostly a short one.
func upTo(random *rand.Rand, most time.Duration) time.Duration {
	share := random.Float64()
	return time.Duration(float64(most) * share * share)
}

// draw takes the next fault that is not of an area.
func (p *plan) draw(not string) chosen {
	for {
		for i, f := range p.deck {
			if f.area == not || not != "" && f.alone() {
				continue
			}
			p.deck = slices.Delete(p.deck, i, i+1)
			c := chosen{fault: f, node: -1}
			if f.one {
				c.node = p.random.IntN(p.cfg.Nodes)
			}
			return c
		}
		for _, f := range faults {
			if f.in.has(p.cfg) {
				p.deck = append(p.deck, f)
			}
		}
		p.random.Shuffle(len(p.deck), func(i, j int) { p.deck[i], p.deck[j] = p.deck[j], p.deck[i] })
	}
}

// bears tells whether clients must get all that the origin has while the faults
// last. A node that is cut from the origin needs all others.
func (r round) bears(tier bool) bool {
	for _, f := range r.faults {
		if !f.bears(tier) || len(r.faults) > 1 && f.area == "origin" {
			return false
		}
	}
	return true
}

func (c chosen) String() string {
	if c.node < 0 {
		return c.name
	}
	return fmt.Sprintf("%s (n%d)", c.name, c.node)
}

func (r round) String() string {
	var names []string
	for _, f := range r.faults {
		names = append(names, f.String())
	}
	text := fmt.Sprintf("%s, %d changes", strings.Join(names, " and "), r.changes)
	if r.away >= 0 {
		text += fmt.Sprintf(", the clients of key%d away", r.away)
	}
	if r.arrive >= 0 {
		text += fmt.Sprintf(", clients of key%d start", r.arrive)
	}
	if r.moves {
		text += ", clients move"
	}
	return text
}
