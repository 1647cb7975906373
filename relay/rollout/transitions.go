package rollout

import "xdsrelay/relay/transition"

// Effect is what the caller has to do after a transition, besides what [Key] does itself.
type Effect uint8

const (
	// Rollback: all canaries return to the stable revision, and the overlay is dropped.
	Rollback Effect = 1 << iota
	// Promote: the revision becomes the stable one, for all clients. After [Skipped] it has all that is
	// pending.
	Promote
	// Undo: the revision before the stable one becomes stable, for all clients.
	Undo
	// Refuse: the digest of the revision is refused. With [Undo] that of the stable one is, too.
	Refuse
	// Report: operators and the control plane are informed of the failure.
	Report
	// Prove: the stable revision is good, so it becomes last known good. Quarantines end.
	Prove
	// Rebake: the bake begins, or begins again.
	Rebake
	// Advance: the next step follows.
	Advance
)

// row is a row of the table: in the states that match, the event leads to the next state.
type row struct {
	on    Event
	phase transition.Set[Phase]
	need  transition.Set[Need]
	brake transition.Set[Brake]

	to     State // same: unchanged
	effect Effect
}

// Row is the row as package transition has it.
func (r row) Row() transition.Row[Event, Effect] {
	return transition.Row[Event, Effect]{
		On: r.on, In: transition.Parts{uint8(r.phase), uint8(r.need), uint8(r.brake)},
		To: transition.Parts{uint8(r.to.Phase), uint8(r.to.Need), uint8(r.to.Brake)}, Output: r.effect,
	}
}

const same = transition.Same

func only[T ~uint8](of ...T) transition.Set[T] { return transition.Only(of...) }

// Sets of the rows, by what they have in common.
var (
	underWay = only(Scouting, Stepping)
	open     = only(Open)
	quiet    = only(Quiet)
	steady   = only(Nothing, Approval, Tokens, Write, Bake) // nothing newer is about to be cut
)

var keep = State{same, same, same}

// rows are the transitions. All other pairs of a state and an event are illegal. Events that widen are
// legal while no brake is set; events that narrow are always legal.
var rows = []row{
	{on: Changed, phase: only(Idle), to: State{Settling, Quiet, same}},
	{on: Changed, phase: underWay, to: State{same, Quiet, same}},
	{on: Changed, phase: only(Held), to: State{Held, Quiet, same}},
	{on: Changed, phase: only(Settling, Proving), to: keep}, // the final bake ends first

	{on: Withdrawn, phase: only(Settling), to: State{Idle, Nothing, same}},
	{on: Withdrawn, phase: only(Scouting, Stepping, Held), to: State{Idle, Nothing, same}, effect: Rollback},
	{on: Withdrawn, phase: only(Idle, Proving), to: keep},

	{on: Cut, phase: only(Settling), brake: open, to: State{Scouting, Approval, same}},
	{on: Cut, phase: only(Scouting, Stepping, Held), need: quiet, brake: open, to: State{Scouting, Approval, same}, effect: Rollback},
	{on: CutSame, phase: underWay, need: quiet, brake: open, to: State{same, Approval, same}},
	{on: CutRefused, phase: only(Settling), brake: open, to: State{Held, Nothing, same}},
	{on: CutRefused, phase: underWay, need: quiet, brake: open, to: State{Held, Nothing, same}, effect: Rollback},
	{on: CutRefused, phase: only(Held), need: quiet, brake: open, to: State{Held, Nothing, same}},

	{on: Approved, need: only(Approval), brake: open, to: State{same, Tokens, same}},
	{on: Granted, need: only(Tokens), brake: open, to: State{same, Write, same}},
	{on: Chosen, need: only(Write), brake: open, to: State{same, Bake, same}, effect: Rebake},
	{on: Promoted, phase: only(Stepping), need: only(Write), brake: open, to: State{Proving, Bake, same}, effect: Promote | Rebake},
	{on: Passed, phase: underWay, need: only(Bake), brake: open, to: State{Stepping, Approval, same}, effect: Advance},
	{on: Outgrown, phase: underWay, need: only(Bake), brake: open, to: State{Scouting, Tokens, same}},
	{on: Passed, phase: only(Proving), brake: open, to: State{Idle, Nothing, same}, effect: Prove},

	// Content that is about to be cut is newer than the revision that has failed, so it is still cut.
	{on: Failed, phase: underWay, need: quiet, to: State{Held, Quiet, same}, effect: Rollback | Refuse | Report},
	{on: Failed, phase: underWay, need: steady, to: State{Held, Nothing, same}, effect: Rollback | Refuse | Report},
	{on: Failed, phase: only(Proving), to: State{Held, Nothing, same}, effect: Undo | Refuse | Report},
	{on: Aborted, phase: underWay, need: quiet, to: State{Held, Quiet, same}, effect: Rollback | Refuse},
	{on: Aborted, phase: underWay, need: steady, to: State{Held, Nothing, same}, effect: Rollback | Refuse},
	{on: Aborted, phase: only(Proving), to: State{Held, Nothing, same}, effect: Undo | Refuse},
	{on: Aborted, phase: only(Held), to: keep, effect: Rollback}, // canaries that the policy has kept

	// Orders that count whatever was decided before.
	{on: Skipped, phase: only(Settling, Scouting, Stepping, Proving, Held), to: State{Idle, Nothing, same}, effect: Promote | Prove},
	{on: Undone, phase: only(Idle, Proving), to: State{Held, Nothing, same}, effect: Undo | Refuse},
	{on: Undone, phase: only(Settling), to: State{Held, Quiet, same}, effect: Undo | Refuse},
	{on: Undone, phase: underWay, need: quiet, to: State{Held, Quiet, same}, effect: Rollback | Undo | Refuse},
	{on: Undone, phase: underWay, need: steady, to: State{Held, Nothing, same}, effect: Rollback | Undo | Refuse},
	{on: Undone, phase: only(Held), to: keep, effect: Rollback | Undo | Refuse},

	// Counts from the time of a brake prove nothing.
	{on: Stopped, brake: open, to: State{same, same, Braked}},
	{on: Released, need: only(Nothing, Quiet, Approval, Tokens, Write), brake: only(Braked), to: State{same, same, Open}},
	{on: Released, need: only(Bake), brake: only(Braked), to: State{same, same, Open}, effect: Rebake},
}

// transitions is made of the rows and never changes.
var transitions = transition.New(transition.Shape[State]{
	Name: "rollout", Parts: []int{phases, needs, brakes}, Events: int(events),
	Of: func(p transition.Parts) State { return State{Phase(p[0]), Need(p[1]), Brake(p[2])} },
}, rows)

// step moves the state along the table. It returns the effects of the transition.
func (s *State) step(e Event) Effect { return transitions.Step(s, s.index(), e) }

// Allows reports whether an event is legal.
func (s State) Allows(e Event) bool { return transitions.Cell(e, s.index()).Legal }
