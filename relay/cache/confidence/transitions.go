package confidence

import "xdsrelay/relay/transition"

// Effect is what a transition does besides changing the state.
type Effect uint8

const (
	// Wake: clients that waited may be served, so the caller wakes them.
	Wake Effect = 1 << iota
	// Forget: the caller forgets which names are absent in spite of the doubt.
	Forget
	// Start: the wait for an answer begins, or begins again.
	Start
	// Mark: what confirmed the content before is remembered.
	Mark
	// Reset: it is forgotten.
	Reset
)

// row is a row of the table: in the states that match, the event leads to the next state.
type row struct {
	on    Event
	basis transition.Set[Basis]
	wait  transition.Set[Wait]

	to     State // same: unchanged
	effect Effect
}

// Row is the row as package transition has it.
func (r row) Row() transition.Row[Event, Effect] {
	return transition.Row[Event, Effect]{
		On: r.on, In: transition.Parts{uint8(r.basis), uint8(r.wait)},
		To: transition.Parts{uint8(r.to.Basis), uint8(r.to.Wait)}, Output: r.effect,
	}
}

const same = transition.Same

func only[T ~uint8](of ...T) transition.Set[T] { return transition.Only(of...) }

// Sets of the rows, by what they have in common.
var (
	settled  = only(Settled)
	held     = only(Held, HeldAwaiting)
	open     = only(Settled, Awaiting) // clients are served
	silent   = only(Settled, Held)     // no answer is awaited
	awaiting = only(Awaiting, HeldAwaiting)

	trusted = only(Unknown, Confirmed, Assumed)
	dubious = only(Vacant, Carried, Slept, Idled, Restored)
	missed  = only(Slept, Idled, Restored)
)

// rows are the transitions. All other pairs of a state and an event are illegal.
var rows = []row{
	{on: Answered, wait: settled, to: State{Confirmed, Settled}, effect: Forget | Reset},
	{on: Answered, wait: only(Awaiting, Held, HeldAwaiting), to: State{Confirmed, Settled}, effect: Wake | Forget | Reset},

	{on: PartAnswered, wait: settled, to: State{same, Awaiting}, effect: Start},
	{on: PartAnswered, wait: only(Held), to: State{same, HeldAwaiting}, effect: Start},
	{on: PartAnswered, wait: awaiting, to: keep},

	{on: AskedAgain, wait: open, to: State{same, Awaiting}, effect: Start | Mark},
	{on: AskedAgain, wait: held, to: State{same, HeldAwaiting}, effect: Start | Mark},
	// The control plane gets no versions of restored content, so it has to answer.
	{on: AskedMore, basis: only(Restored), wait: open, to: State{same, Awaiting}, effect: Start},
	{on: AskedMore, basis: only(Restored), wait: held, to: State{same, HeldAwaiting}, effect: Start},
	{on: AskedMore, basis: only(Unknown, Confirmed, Assumed, Vacant, Carried, Slept, Idled), to: keep},

	{on: Moved, basis: only(Unknown, Confirmed, Assumed, Vacant), to: State{Carried, same}, effect: Forget},
	{on: Moved, basis: only(Carried, Slept, Idled, Restored), to: keep, effect: Forget},

	// A hold from before has no meaning after the key was idle.
	{on: Resumed, basis: only(Unknown, Confirmed, Assumed, Vacant, Carried, Slept, Idled), wait: silent, to: State{Idled, Settled}, effect: Forget},
	{on: Resumed, basis: only(Unknown, Confirmed, Assumed, Vacant, Carried, Slept, Idled), wait: awaiting, to: State{Idled, Awaiting}, effect: Forget},
	{on: Resumed, basis: only(Restored), wait: silent, to: State{same, Settled}, effect: Forget},
	{on: Resumed, basis: only(Restored), wait: awaiting, to: State{same, Awaiting}, effect: Forget},
	{on: ResumedEmpty, basis: trusted, wait: silent, to: State{Vacant, Settled}, effect: Forget},
	{on: ResumedEmpty, basis: trusted, wait: awaiting, to: State{Vacant, Awaiting}, effect: Forget},
	{on: ResumedEmpty, basis: dubious, wait: silent, to: State{same, Settled}, effect: Forget},
	{on: ResumedEmpty, basis: dubious, wait: awaiting, to: State{same, Awaiting}, effect: Forget},

	{on: Woke, basis: only(Unknown, Confirmed, Assumed, Vacant, Carried), to: State{Slept, Awaiting}, effect: Forget | Start},
	{on: Woke, basis: missed, to: State{same, Awaiting}, effect: Forget | Start},

	{on: CopyRestored, to: State{Restored, same}},
	// An answer that arrived before anything was asked is none.
	{on: NamesAssumed, basis: trusted, to: State{Assumed, same}},
	{on: NamesAssumed, basis: dubious, to: keep},

	{on: HoldBegan, basis: dubious, wait: silent, to: State{same, Held}},
	{on: HoldBegan, basis: dubious, wait: awaiting, to: State{same, HeldAwaiting}},
	{on: HoldEnded, wait: only(Held), to: State{same, Settled}, effect: Wake},
	{on: HoldEnded, wait: only(HeldAwaiting), to: State{same, Awaiting}, effect: Wake},
	{on: HoldEnded, wait: open, to: keep},

	{on: Released, wait: settled, to: keep},
	{on: Released, wait: only(Held), to: State{same, Settled}, effect: Wake},
	{on: Released, wait: awaiting, to: State{same, Settled}, effect: Wake | Mark},

	// The stream did not exist when the key was idle, or before the content was restored.
	{on: StayedUp, basis: only(Slept), wait: silent, to: State{Confirmed, Settled}, effect: Wake | Forget},
	{on: StayedUp, basis: only(Slept), wait: awaiting, to: State{Confirmed, Settled}, effect: Wake | Forget | Mark},
	{on: StayedUp, basis: only(Unknown, Confirmed, Assumed, Vacant, Carried, Idled, Restored), to: keep},
}

var keep = State{same, same}

// transitions is made of the rows and never changes.
var transitions = transition.New(shape("confidence", int(events)), rows)

// shape is that of a table with a cell for each state and each of so many events or questions.
func shape(name string, events int) transition.Shape[State] {
	return transition.Shape[State]{
		Name: name, Parts: []int{bases, waits}, Events: events,
		Of: func(p transition.Parts) State { return State{Basis(p[0]), Wait(p[1])} },
	}
}

// step moves the state along the table. It returns what else the transition does.
func (s *State) step(e Event) Effect { return transitions.Step(s, s.index(), e) }
