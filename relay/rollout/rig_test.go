package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

var began = time.Unix(1e9, 0)

// rig drives a key as its caller does. Contents of the control plane are numbers.
type rig struct {
	*Key
	now, cutAt        time.Time
	origin, all, some int // what the control plane sends, what all clients have, and what canaries have
	former            []int
	clients           []client
	view              View
	budget            Budget
	limits            Limits
	refills           int
	log               []string
}

func newRig(p *Policy, clients int) *rig {
	r := &rig{Key: New(p), now: began, clients: fleet(clients, 3, "salt"), limits: DefaultLimits()}
	r.view = View{Answered: true, Verdict: Verdict{Outcome: Passes}}
	return r
}

func digestOf(content int) Digest {
	return DigestOf([]Change{{TypeURL: "t", Name: "x", Version: strconv.Itoa(content)}})
}

// carry carries out effects.
func (r *rig) carry(e Effect) {
	if e&Promote != 0 {
		r.former = append(r.former, r.all)
		r.all = r.some
	}
	if e&Undo != 0 {
		r.all, r.former = r.former[len(r.former)-1], r.former[:len(r.former)-1]
	}
	for i, name := range effectNames {
		if e&(1<<i) != 0 {
			r.log = append(r.log, name)
		}
	}
	if e&Report != 0 {
		r.budget.Failed(&r.limits, "key", r.now)
		r.budget.Reset()
	} else if !r.NeedsTokens() {
		r.budget.GiveBack("key")
	}
}

// send makes the control plane send a content.
func (r *rig) send(content int) {
	if content == r.origin {
		return
	}
	if r.origin = content; content == r.all {
		r.carry(r.Withdrawn(r.now))
	} else {
		r.carry(r.Changed(r.now))
	}
}

// step does what is next. It reports whether there was anything.
func (r *rig) step() (Decision, bool) {
	r.view.Present, r.view.Eligible, r.view.Quarantined, r.view.Affected = len(r.Run.Canaries.Hashes), 0, 0, len(r.clients)
	for _, c := range r.clients {
		if r.Lost.Has(c.hash) {
			r.view.Quarantined++
		} else {
			r.view.Eligible++
		}
	}
	for _, h := range r.Run.Canaries.Hashes {
		if r.Lost.Has(h) {
			r.view.Present--
		}
	}
	if r.Need == Tokens && r.NeedsTokens() && r.view.Eligible > 0 {
		r.view.Grant, _ = r.budget.Take(&r.limits, "key", max(5, Share(0.1).Of(len(r.clients))), r.Phase == Scouting, 100*len(r.clients), r.cutAt, r.now)
	}
	d := r.Next(&r.view, r.now)
	if d.Act != Wait {
		r.log = append(r.log, d.Act.String())
	}
	switch d.Act {
	case Wait:
		return d, false
	case MakeCut:
		if r.origin == r.all {
			r.carry(r.Withdrawn(r.now))
			break
		}
		is, effect, _ := r.Cut(digestOf(r.origin), r.now)
		if r.carry(effect); is == Cut {
			r.some, r.cutAt = r.origin, r.now
		}
	case PassApproval:
		r.PassApproval(r.now)
	case PassTokens:
		r.Granted(r.now)
	case ChooseScouts:
		var all []Scout
		for i, c := range r.clients {
			if !r.Lost.Has(c.hash) && !r.Run.Canaries.Has(c.hash) {
				all = append(all, Scout{Hash: c.hash, Version: fmt.Sprint("envoy/", i%3)})
			}
		}
		scouts := r.Run.Canaries
		for _, s := range ScoutsAmong(all, r.Run.Policy.Scouts.Most) {
			scouts = scouts.With(s.Hash)
		}
		effect, _ := r.Chosen(scouts, Roster{}, len(r.clients), r.now)
		r.carry(effect)
	case ChooseCanaries, Refill:
		had := r.Run.Canaries
		if d.Act == Refill {
			had = Roster{}
			r.refills++
		}
		k := r.Run.Share().Of(len(r.clients))
		if r.Phase == Scouting {
			k = 3
		}
		well := slices.DeleteFunc(slices.Clone(r.clients), func(c client) bool { return r.Lost.Has(c.hash) }) // as callers do
		canaries, control := choose(well, 2, k, 1, had, r.Lost)
		if d.Act == Refill {
			if !r.Refilled(canaries, control, r.now) {
				return d, false
			}
			break
		}
		effect, _ := r.Chosen(canaries, control, len(r.clients), r.now)
		r.carry(effect)
	case KeepCanaries:
		effect, _ := r.Chosen(r.Run.Canaries, r.Run.Control, len(r.clients), r.now)
		r.carry(effect)
	case PromoteAll:
		effect, _ := r.Promoted(Arm{}, 0, r.now)
		r.carry(effect)
	case Repeat:
		r.Outgrown(r.now)
	case Pass:
		if r.IsFirstBake() && r.Run.Repeats == 0 {
			r.budget.Pass(&r.limits, "key", r.cutAt)
		}
		r.carry(r.Passed(r.now))
	case Fail:
		r.carry(r.Failed(r.view.Verdict, r.now))
		r.view.Verdict = Verdict{Outcome: Passes}
	}
	return d, true
}

// run does all that is next, and returns why it waits.
func (r *rig) run() Decision {
	for range 50 {
		if d, did := r.step(); !did {
			return d
		}
	}
	return Decision{Why: reasons}
}

// sleep lets time pass, and wakes up where a decision asks for it.
func (r *rig) sleep(d time.Duration) Decision {
	until := r.now.Add(d)
	for {
		next := r.run()
		if next.At.IsZero() || next.At.After(until) || !next.At.After(r.now) {
			r.now = until
			return r.run()
		}
		r.now = next.At
	}
}

// has is the content that a client is sent.
func (r *rig) has(h Hash) int {
	if r.HasCandidate(h) {
		return r.some
	}
	return r.all
}
