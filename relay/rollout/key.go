package rollout

import (
	"slices"
	"time"
)

// Pace is what happens to a revision when a newer one arrives.
type Pace uint8

const (
	// Ordinary: the newer one supersedes it.
	Ordinary Pace = iota
	// Train: it runs to its end, and the newer one waits.
	Train
)

const (
	// MaxRestarts is how often in a row revisions are superseded before one becomes a [Train], and
	// MaxStale for how long they are.
	MaxRestarts = 3
	MaxStale    = 15 * time.Minute
	// MaxRefused is how many refused digests a key remembers, and MaxUndo how many former revisions.
	MaxRefused = 4
	MaxUndo    = 3
)

// Run is the rollout of one revision.
type Run struct {
	// Policy is the one that it began with.
	Policy   *Policy `json:"-"`
	Revision Digest
	Pace     Pace
	// Step is 0 for the scouts, from 1 on a step of the policy, and after those the one to all clients.
	Step int
	// Small says that scouts and one bake are enough.
	Small bool
	// Canaries have the revision, unless they are in Lost. Control are those that they are compared with.
	Canaries, Control Roster
	// Began and Stepped are the times of the first canary, and of the first of the step. BakeEnds is when
	// the bake is over.
	Began, Stepped, BakeEnds time.Time
	// Approved and Written count the steps that are approved, and that the record has.
	Approved, Written int
	// Affected is how many clients were affected when the canaries of the step were chosen. 0 means that they
	// have yet to be chosen, also where there are some: far more clients are affected since. Repeats is how often
	// that happened.
	Affected, Repeats int `json:",omitzero"`
	// Baseline is the control group of the last step, for the final bake, and BaselineOver its time.
	Baseline     Arm
	BaselineOver time.Duration
}

// Record is what nodes agree on about a key. Restored by another node, it continues there.
type Record struct {
	Reached Phase // that of the state
	Run     Run
	// Stable is what changed the content of all clients last, Good the last that passed a final bake, and
	// Former those before Stable, the newest first.
	Stable, Good Digest
	Former       []Digest
	// Refused are digests that are not tried again, the newest last.
	Refused []Digest
	// Lost are canaries that are quarantined until the revision is good, or another one is cut.
	Lost Roster
	// Why is the verdict that failed last.
	Why Verdict
	// Frozen is the order that freezes the key, and Paused the one that pauses its rollout.
	Frozen, Paused Order
	// Restarts are revisions in a row that were superseded, the first at Superseded.
	Restarts   int
	Superseded time.Time
}

// Key is the state of one key. The caller guards it.
type Key struct {
	State
	Record
	// Brakes are the reasons why nothing may widen.
	Brakes Brakes
	// Newer says that content has changed that waits for the end of a train or of the final bake.
	Newer bool

	policy      *Policy
	first, last time.Time // changes since the last cut
	// restored is when the key was restored while its revision was on its way or refused; zero if what the
	// control plane sends has been cut since.
	restored time.Time
}

const (
	// For partsWait after a restart or another owner, what is pending may be a part of the revision of the record:
	// clients return one by one, and each asks for one type after the other. While the control plane has not
	// answered for all types, it may be that for answerWait.
	partsWait  = 5 * time.Second
	answerWait = 30 * time.Second
)

// New returns the state of a key that has a policy.
func New(p *Policy) *Key { return &Key{policy: p} }

// Restore returns the state of a key from a record. A revision that is on its way waits until the
// caller cuts what the control plane sends now: if that is the same revision, its step begins again
// with its canaries and a fresh bake. The control plane may send it in parts, so another one is not cut at once:
// see [Key.IsSought].
func Restore(r Record, p *Policy, now time.Time) *Key {
	k := &Key{policy: p, Record: r, State: State{Phase: r.Reached}, first: now, last: now}
	k.Run.Policy = p
	switch k.Phase {
	case Settling:
		k.Need = Quiet
	case Scouting, Stepping, Held:
		k.Need, k.restored = Quiet, now
	case Proving:
		k.Need = Bake
		k.rebake(now)
	}
	if !r.Frozen.IsZero() {
		k.Stop(Frozen, now)
	}
	if !r.Paused.IsZero() {
		k.Stop(Paused, now)
	}
	return k
}

// IsNew reports whether nothing was ever decided about the key, nothing is, and no brake is set.
func (k *Key) IsNew() bool {
	r := &k.Record
	return k.State == State{} && r.Run.Revision.IsZero() && r.Stable.IsZero() && r.Good.IsZero() && len(r.Former)+len(r.Refused) == 0 &&
		r.Lost.IsEmpty() && r.Frozen.IsZero() && r.Paused.IsZero() && r.Restarts == 0 && !k.Newer
}

// Saved returns the record, for [Restore].
func (k *Key) Saved() Record {
	r := k.Record
	r.Reached = k.Phase
	return r
}

// Policy is the one for the next revision.
func (k *Key) Policy() *Policy { return k.policy }

// SetPolicy changes the policy for the next revision. One that is on its way keeps its own.
func (k *Key) SetPolicy(p *Policy) { k.policy = p }

// IsEnforced reports whether effects and decisions are carried out. With mode observe they are only
// recorded: changes pass at once.
func (k *Key) IsEnforced() bool { return k.running().Mode.Holds() }

// running is the policy of the revision on its way, or the next one.
func (k *Key) running() *Policy {
	if k.IsJudged() && k.Run.Policy != nil {
		return k.Run.Policy
	}
	return k.policy
}

// IsSought reports whether the revision of the record is looked for in what is pending, after a restart or on
// another node, and that is not over: until it is there, or the control plane had enough time to send it.
func (k *Key) IsSought(v *View, now time.Time) bool {
	_, sought := k.soughtUntil(v, now)
	return sought
}

func (k *Key) soughtUntil(v *View, now time.Time) (until time.Time, sought bool) {
	if k.restored.IsZero() || v.Same {
		return time.Time{}, false
	}
	if until = k.restored.Add(partsWait); !v.Answered {
		until = k.restored.Add(answerWait)
	}
	return until, now.Before(until)
}

// apply moves along the table and applies the effects on the record.
func (k *Key) apply(e Event, now time.Time) Effect {
	was := k.State
	effect := k.step(e)
	if k.Need != Quiet {
		k.restored = time.Time{}
	}
	if e == Failed && k.Run.Policy.OnFail == HoldThere {
		effect &^= Rollback | Undo
	}
	if effect&Refuse != 0 {
		k.refuse(k.Run.Revision, was.IsJudged())
		k.refuse(k.Stable, effect&Undo != 0)
	}
	if effect&Undo != 0 && len(k.Former) > 0 {
		undone := k.Stable
		k.Stable, k.Former = k.Former[0], k.Former[1:]
		if k.Good == undone {
			k.Good = k.Stable
		}
	}
	if effect&(Rollback|Undo|Promote) != 0 {
		k.Run.Canaries, k.Run.Control = Roster{}, Roster{}
	}
	if effect&Prove != 0 {
		k.Good, k.Lost, k.Restarts, k.Superseded = k.Stable, Roster{}, 0, time.Time{}
	}
	if effect&Advance != 0 {
		k.Run.Step++
	}
	if effect&Rebake != 0 {
		k.rebake(now)
	}
	if !k.IsJudged() && !k.Paused.IsZero() && e != Stopped && e != Released {
		effect |= k.release(Paused, now) // there is no longer anything to pause
	}
	if k.Newer && k.Phase != Proving && (!k.IsUnderWay() || k.Run.Pace != Train) {
		k.Newer = false
		k.apply(Changed, now)
	}
	return effect
}

// refuse remembers that a digest is not tried again.
func (k *Key) refuse(d Digest, is bool) {
	if !is || d.IsZero() || k.IsRefused(d) {
		return
	}
	k.Refused = append(slices.Clone(k.Refused), d)
	k.Refused = k.Refused[max(0, len(k.Refused)-MaxRefused):]
}

// IsRefused reports whether a digest is not tried again.
func (k *Key) IsRefused(d Digest) bool { return slices.Contains(k.Refused, d) }

// rebake begins the bake of the phase.
func (k *Key) rebake(now time.Time) {
	k.Run.Stepped, k.Run.BakeEnds = now, now.Add(k.Run.bake(k.Phase))
}

// bake is how long the bake of a phase takes. Scouts have to answer, which takes no certain time.
func (r *Run) bake(p Phase) time.Duration {
	switch {
	case p == Proving:
		return r.Policy.Final
	case p == Scouting && r.Small && len(r.Policy.Steps) > 0:
		return r.Policy.Steps[0].Bake
	case p == Stepping && !r.IsLast():
		return r.Policy.Steps[r.Step-1].Bake
	}
	return 0
}

// IsLast reports whether the step is the one to all clients.
func (r *Run) IsLast() bool {
	return r.Step > 0 && (r.Small || r.Step > len(r.Policy.Steps))
}

// needsApproval reports whether an operator has to approve the step.
func (r *Run) needsApproval() bool {
	if r.Approved > r.Step {
		return false
	}
	if r.Small && r.Step > 0 {
		for step := range r.Policy.Steps { // the step to all replaces them
			if r.Policy.NeedsApproval(step + 1) {
				return true
			}
		}
	}
	return r.Policy.NeedsApproval(r.Step)
}

// Share is that of the step; 0 for scouts.
func (r *Run) Share() Share {
	switch {
	case r.Step == 0:
		return 0
	case r.IsLast():
		return 1
	}
	return r.Policy.Steps[r.Step-1].Share
}

// Changed records that gated content has changed.
func (k *Key) Changed(now time.Time) Effect {
	if k.Need != Quiet && !k.Newer {
		k.first = now
	}
	k.last = now
	if k.Phase == Proving || k.IsUnderWay() && k.Run.Pace == Train && k.Need != Quiet {
		k.Newer = true
		return 0
	}
	return k.apply(Changed, now)
}

// Withdrawn records that the control plane is back at the stable content, so nothing is pending.
func (k *Key) Withdrawn(now time.Time) Effect {
	k.Newer = false
	return k.apply(Withdrawn, now)
}

// Cut records that all that is pending was cut into a revision. It returns what that is: [Cut],
// [CutSame] or [CutRefused]. For the latter two the overlay is dropped. It returns false if nothing was to be cut
// any more.
func (k *Key) Cut(d Digest, now time.Time) (is Event, effect Effect, ok bool) {
	if !k.Allows(Cut) {
		return 0, 0, false
	}
	switch {
	case k.IsUnderWay() && d == k.Run.Revision:
		return CutSame, k.apply(CutSame, now), true
	case k.IsRefused(d):
		return CutRefused, k.apply(CutRefused, now), true
	}
	if k.IsUnderWay() {
		if k.Restarts == 0 {
			k.Superseded = now
		}
		k.Restarts++
	} else {
		k.Restarts = 0
	}
	effect = k.apply(Cut, now)
	if d != k.Run.Revision { // else it was withdrawn, and is back
		k.Lost = Roster{}
	}
	k.Run = Run{Policy: k.policy, Revision: d}
	if k.policy.Newer == AfterThis || k.Restarts >= MaxRestarts || k.Restarts > 0 && now.Sub(k.Superseded) >= MaxStale {
		k.Run.Pace, k.Restarts = Train, 0
	}
	return Cut, effect, true
}

// Granted records that the budget has granted the tokens of the step.
func (k *Key) Granted(now time.Time) {
	if k.Allows(Granted) {
		k.apply(Granted, now)
	}
}

// Chosen records that the record has the step with its canaries, of so many affected clients. It
// returns false if the step was no longer to be made: then no client may be sent anything.
func (k *Key) Chosen(canaries, control Roster, affected int, now time.Time) (Effect, bool) {
	if !k.Allows(Chosen) || k.Run.IsLast() || canaries.IsEmpty() {
		return 0, false
	}
	if k.choosesNext() {
		k.Run.Affected = affected
	}
	k.Run.Canaries, k.Run.Control = canaries, control
	k.Run.Written = k.Run.Step + 1
	if k.Phase == Scouting {
		k.Run.Small = affected < k.Run.Policy.Canaries.Small || len(k.Run.Policy.Steps) == 0
	}
	if k.Run.Began.IsZero() {
		k.Run.Began = now
	}
	return k.apply(Chosen, now), true
}

// Refilled records the canaries of a step after all others have left. The bake begins again.
func (k *Key) Refilled(canaries, control Roster, now time.Time) bool {
	if !k.IsUnderWay() || k.Need != Bake || k.Brake != Open || canaries.IsEmpty() {
		return false
	}
	k.Run.Canaries, k.Run.Control = canaries, control
	k.rebake(now)
	return true
}

// Promoted records that the record has the step to all clients. control is the control group of the
// last step over a time, for the final bake. It returns false if the step was no longer to be made.
func (k *Key) Promoted(control Arm, over time.Duration, now time.Time) (Effect, bool) {
	if !k.Allows(Promoted) || !k.Run.IsLast() {
		return 0, false
	}
	k.Run.Baseline, k.Run.BaselineOver = control, over
	k.stable(k.Run.Revision)
	return k.apply(Promoted, now), true
}

// stable makes a revision the one of all clients.
func (k *Key) stable(d Digest) {
	k.Former = append([]Digest{k.Stable}, k.Former...)
	k.Former = k.Former[:min(len(k.Former), MaxUndo)]
	k.Stable = d
}

// Passed records that the bake has passed.
func (k *Key) Passed(now time.Time) Effect {
	if !k.Allows(Passed) {
		return 0
	}
	return k.apply(Passed, now)
}

// Outgrown records that far more clients are affected than when the canaries of the step were chosen: the bake shows
// too little about them. The revision goes to scouts among all of them, and through its steps again. Its canaries
// keep it.
func (k *Key) Outgrown(now time.Time) bool {
	if !k.Allows(Outgrown) {
		return false
	}
	k.apply(Outgrown, now)
	k.Run.Step, k.Run.Affected = 0, 0
	k.Run.Repeats++
	return true
}

// Failed records that a verdict about the revision has failed.
func (k *Key) Failed(v Verdict, now time.Time) Effect {
	if !k.Allows(Failed) {
		return 0
	}
	k.Why = v
	return k.apply(Failed, now)
}
