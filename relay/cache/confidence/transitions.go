package confidence

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

// set is a set of bases or waits, as bits; 0 means all.
type set uint8

func only[T ~uint8](of ...T) (s set) {
	for _, v := range of {
		s |= 1 << v
	}
	return s
}

func (s set) has(v uint8) bool { return s == 0 || s&(1<<v) != 0 }

// same marks a part of the state that a transition keeps.
const same = 0xff

// transition is a row of the table: in the states that match, the event leads to the next state.
type transition struct {
	on    Event
	basis set
	wait  set

	to     State // same: unchanged
	effect Effect
}

// Sets of the rows, by what they have in common.
var (
	settled  = only(Settled)
	held     = only(Held, HeldAwaiting)
	open     = only(Settled, Awaiting) // clients are served
	silent   = only(Settled, Held)     // no answer is awaited
	awaiting = only(Awaiting, HeldAwaiting)

	trusted = only(Unknown, Confirmed, Assumed)
	dubious = only(Carried, Slept, Idled, Restored)
	missed  = only(Slept, Idled, Restored)
)

// rows are the transitions. All other pairs of a state and an event are illegal.
var rows = []transition{
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
	{on: AskedMore, basis: only(Unknown, Confirmed, Assumed, Carried, Slept, Idled), to: keep},

	{on: Moved, basis: trusted, to: State{Carried, same}, effect: Forget},
	{on: Moved, basis: dubious, to: keep, effect: Forget},

	// A hold from before has no meaning after the key was idle.
	{on: Resumed, basis: only(Unknown, Confirmed, Assumed, Carried, Slept, Idled), wait: silent, to: State{Idled, Settled}, effect: Forget},
	{on: Resumed, basis: only(Unknown, Confirmed, Assumed, Carried, Slept, Idled), wait: awaiting, to: State{Idled, Awaiting}, effect: Forget},
	{on: Resumed, basis: only(Restored), wait: silent, to: State{same, Settled}, effect: Forget},
	{on: Resumed, basis: only(Restored), wait: awaiting, to: State{same, Awaiting}, effect: Forget},
	{on: ResumedEmpty, basis: trusted, wait: silent, to: State{Carried, Settled}, effect: Forget},
	{on: ResumedEmpty, basis: trusted, wait: awaiting, to: State{Carried, Awaiting}, effect: Forget},
	{on: ResumedEmpty, basis: dubious, wait: silent, to: State{same, Settled}, effect: Forget},
	{on: ResumedEmpty, basis: dubious, wait: awaiting, to: State{same, Awaiting}, effect: Forget},

	{on: Woke, basis: only(Unknown, Confirmed, Assumed, Carried), to: State{Slept, Awaiting}, effect: Forget | Start},
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
	{on: StayedUp, basis: only(Unknown, Confirmed, Assumed, Carried, Idled, Restored), to: keep},
}

var keep = State{same, same}

// cell is one of the table: the transition of one event in one state.
type cell struct {
	to     State
	effect Effect
	legal  bool
}

// table has a cell for each event in each state.
type table [events][states]cell

// transitions is made of the rows and never changes.
var transitions = tableOf(rows)

func tableOf(rows []transition) *table {
	var t table
	for s := range allStates {
		for _, r := range rows {
			if r.matches(s) {
				t[r.on][s.index()] = cell{r.next(s), r.effect, true}
			}
		}
		for e := range events {
			if c := &t[e][s.index()]; !c.legal {
				c.to = s
			}
		}
	}
	return &t
}

// allStates goes through all states, including those that no event leads to.
func allStates(yield func(State) bool) {
	for i := range states {
		if !yield(State{Basis(i / waits), Wait(i % waits)}) {
			return
		}
	}
}

func (r *transition) matches(s State) bool {
	return r.basis.has(uint8(s.Basis)) && r.wait.has(uint8(s.Wait))
}

func (r *transition) next(s State) State {
	if r.to.Basis != same {
		s.Basis = r.to.Basis
	}
	if r.to.Wait != same {
		s.Wait = r.to.Wait
	}
	return s
}

// step moves the state along the table. It returns what else the transition does.
func (s *State) step(e Event) Effect {
	c := &transitions[e][s.index()]
	if checked && !c.legal {
		panic("confidence: " + e.String() + " while " + s.String())
	}
	*s = c.to
	return c.effect
}
