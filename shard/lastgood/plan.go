package lastgood

import "time"

// doing is what a keeper does for a key that this node owns.
type doing uint8

const (
	// idle: there is nothing to write, as far as is known. The store is checked from time to time.
	idle doing = iota
	// due: there may be something to write, at a time that is set.
	due
	// writing: a turn checks the store, or writes what it reads in the cache.
	writing
	// outdated: the same, and the key has changed since the turn began.
	outdated
	// ending: this node owns the key no more. The one who ends it writes it a last time.
	ending

	doings = iota
)

// event is what happens to a key.
type event uint8

const (
	changed   event = iota // the key may have other content
	begun                  // a turn has begun
	settled                // the turn is over, and has left nothing to write
	unsettled              // the turn is over, and there is something to write
	ended                  // this node owns the key no more

	events = iota
)

// transitions has the next state, by event and state. Events that do not happen in a state leave it
// as it is.
var transitions = [events][doings]doing{
	//         idle     due      writing   outdated  ending
	changed:   {due, due, outdated, outdated, ending},
	begun:     {writing, writing, writing, outdated, ending},
	settled:   {idle, due, idle, due, ending},
	unsettled: {idle, due, due, due, ending},
	ended:     {ending, ending, ending, ending, ending},
}

// plan is what to do for a key, and when. It is pure: the schedule locks it, and keeps time.
type plan struct {
	doing doing
	write time.Time // when to write next; zero if there is nothing to write
	check time.Time // when to check the store next
}

// turn is what is to be done at one time.
type turn struct{ check, write bool }

// outcome is what a turn has found.
type outcome struct {
	turn
	failed bool          // the write has failed
	pause  time.Duration // until it is retried
}

func (p *plan) step(e event) { p.doing = transitions[e][p.doing] }

// next returns when the next turn begins; false means that none does before the present one is
// over.
func (p *plan) next() (at time.Time, ok bool) {
	switch {
	case p.doing == idle, p.doing == due && p.check.Before(p.write):
		return p.check, true
	case p.doing == due:
		return p.write, true
	}
	return at, false
}

// changed records that the key has changed. It is to be written delay later.
func (p *plan) changed(now time.Time, delay time.Duration) {
	if p.step(changed); p.doing == due && p.write.IsZero() {
		p.write = now.Add(delay)
	}
}

// lost records that the store may have lost the records of the key. It is checked at once.
func (p *plan) lost(now time.Time) {
	if p.check.After(now) {
		p.check = now
	}
}

// begin returns the turn for which next was the time. pause is the time to the next check.
func (p *plan) begin(now time.Time, pause time.Duration) turn {
	t := turn{check: !now.Before(p.check), write: p.doing == due && !now.Before(p.write)}
	if t.check {
		p.check = now.Add(pause)
	}
	p.step(begun)
	return t
}

// over records the outcome of a turn. A check may have found that records are missing, and the key
// may have changed: then it is to be written delay later. So it is after a check that has failed: what
// the store lacks is written as soon as the store is back, and a write reports the failure.
func (p *plan) over(now time.Time, delay time.Duration, o outcome) {
	switch {
	case o.failed:
		p.write = now.Add(o.pause)
	case o.write:
		p.write = time.Time{}
	case o.check && p.write.IsZero():
		p.write = now.Add(delay)
	}
	if p.write.IsZero() {
		p.step(settled)
	} else {
		p.step(unsettled)
	}
	if p.doing == due && p.write.IsZero() {
		p.write = now.Add(delay)
	}
}

// end records that this node owns the key no more.
func (p *plan) end() { p.step(ended) }
