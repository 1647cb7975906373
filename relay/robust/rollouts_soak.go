package robust

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// stagedRound is what happens during the rollouts of all keys: they begin at one moment, and the faults at any
// time after that.
type stagedRound struct {
	bad    []bool // by key: clients reject the revision
	faults []chosen
	after  time.Duration // of the revisions
	lasts  time.Duration
	moves  bool // clients move while the faults last
}

func (r stagedRound) String() string {
	var names []string
	for _, f := range r.faults {
		names = append(names, f.String())
	}
	text := fmt.Sprintf("%s after %.1fs for %.1fs", strings.Join(names, " and "), r.after.Seconds(), r.lasts.Seconds())
	if r.moves {
		text += ", clients move"
	}
	return text
}

// isForRollouts reports whether a rollout is bounded whatever else happens while the fault lasts. A control
// plane that loses content, or has other content, begins other rollouts.
func isForRollouts(f *fault) bool {
	switch f.area {
	case processArea:
		return f.name != "kill a node right after a change"
	case originArea:
		return slices.Contains([]string{"cut a node from the origin", "cut all from the origin", "hang a node's origin", "restart the origin"}, f.name)
	}
	return !f.alone()
}

// mayMeet reports whether a rollout is bounded while both faults last. A node that starts without Redis has
// nothing with which to compare what the control plane sends, and an owner that ends with Redis takes what it
// knows with it. Nor has a node that reaches neither Redis nor another node, for types that no client of it has
// asked for before.
func mayMeet(f, other *fault) bool {
	if f.area != redisArea {
		f, other = other, f
	}
	return f.area != redisArea || other.area != processArea && other.area != peersArea
}

// drawStaged draws a round.
func drawStaged(p *plan) (r stagedRound) {
	draw := func(not string) chosen {
		for {
			if c := p.draw(not); isForRollouts(&c.fault) {
				return c
			}
		}
	}
	r.faults = []chosen{draw("")}
	if p.random.IntN(3) == 0 {
		if second := draw(r.faults[0].area); mayMeet(&r.faults[0].fault, &second.fault) {
			r.faults = append(r.faults, second)
		}
	}
	for range p.cfg.Keys {
		r.bad = append(r.bad, p.random.IntN(2) == 0)
	}
	r.after = upTo(p.random, 8*time.Second)
	r.lasts = upTo(p.random, 20*time.Second)
	r.moves = p.random.IntN(3) == 0
	return r
}

// RolloutsUnderFaults goes through rounds for as long as the configuration requires, until something is wrong.
func (w *World) RolloutsUnderFaults() (wrong []string) {
	w.t.Helper()
	w.wait(5 * time.Second) // the first content is stored
	rounds, revisions, clients, lost := 0, 0, 0, 0
	for p := newPlan(w.cfg); len(wrong) == 0 && w.to.Since() < w.cfg.For; rounds++ {
		r := drawStaged(p)
		w.logf("round %d, %.0fs: %s", rounds+1, w.to.Since().Seconds(), r)
		all, these := w.staged(r)
		for _, x := range all {
			revisions, clients, lost = revisions+1, clients+len(x.since), lost+x.replaced
		}
		if wrong = these; len(wrong) > 0 {
			wrong = append(wrong, r.String())
		}
		for _, n := range w.nodes {
			w.checkNode(n)
			w.checkLog(n)
		}
		for _, c := range w.found {
			if c.Guarantee == "Alive" || c.Guarantee == "Consistent" {
				wrong = append(wrong, c.Text)
			}
		}
	}
	w.logf("%d rounds with %d revisions in %.0fs: %d clients had one, %d of these lost their streams", rounds, revisions, w.to.Since().Seconds(), clients, lost)
	return wrong
}

// staged carries out a round.
func (w *World) staged(r stagedRound) (all []*exposed, wrong []string) {
	w.t.Helper()
	before := w.origin.Snapshot()
	for i, key := range w.keys {
		all = append(all, w.revise(key, r.bad[i]))
	}
	w.wait(r.after, all...)
	for _, f := range r.faults {
		n := w.node(f)
		for _, x := range all {
			switch {
			case f.area != processArea:
			case n != nil:
				x.faulty = append(x.faulty, n.name)
			default:
				for _, n := range w.nodes {
					x.faulty = append(x.faulty, n.name)
				}
			}
		}
		f.begin(w, n)
	}
	w.wait(r.lasts/2, all...)
	if r.moves {
		w.fleet.Move(0.2)
	}
	w.wait(r.lasts/2, all...)
	for _, f := range r.faults {
		f.heal(w, w.node(f))
	}
	most := make([]int, len(all))
	for i, x := range all {
		_, most[i] = w.released(x, all)
	}
	w.wait(2*time.Second, all...)
	for i, x := range all {
		wrong = append(wrong, x.wrong(most[i])...)
	}
	w.takeBack(before, all...)
	return all, wrong
}
