package quarantine

import "xdsrelay/relay/transition"

// Effect is what a transition does besides changing the state.
type Effect uint8

const (
	// Report: operators are informed that the type seems to end streams.
	Report Effect = 1 << iota
	// Show and Hide: the type is added to what operators see as quarantined, or removed from it.
	Show
	Hide
	// Clear: operators are informed that the type is harmless.
	Clear
	// Delay: the next probe is due after the pause; without it, at once.
	Delay
	// Backoff: the pause after that is twice as long.
	Backoff
)

// row is a row of the table: in the states that match, the event leads to the next state.
type row struct {
	on      Event
	place   transition.Set[Place]
	verdict transition.Set[Verdict]

	to     State // same: unchanged
	effect Effect
}

// Row is the row as package transition has it.
func (r row) Row() transition.Row[Event, Effect] {
	return transition.Row[Event, Effect]{
		On: r.on, In: transition.Parts{uint8(r.place), uint8(r.verdict)},
		To: transition.Parts{uint8(r.to.Place), uint8(r.to.Verdict)}, Output: r.effect,
	}
}

const same = transition.Same

func only[T ~uint8](of ...T) transition.Set[T] { return transition.Only(of...) }

// Sets of the rows, by what they have in common.
var (
	onMain     = only(Main)
	active     = only(Waiting, Opening, Probing)
	open       = only(Untried, Accused)   // the verdict may still change
	reported   = only(Accused, Acquitted) // operators were informed, if the type is quarantined
	unreported = only(Untried, Harmless)
)

// rows are the transitions. All other pairs of a state and an event are illegal.
var rows = []row{
	{on: Wanted, place: only(Main, Waiting, Opening, Probing), to: keep},
	{on: Wanted, place: only(Unwanted), verdict: unreported, to: State{Waiting, same}},
	{on: Wanted, place: only(Unwanted), verdict: reported, to: State{Waiting, same}, effect: Show},

	// A harmless type is never quarantined.
	{on: Suspected, place: onMain, verdict: open, to: State{Main, Accused}},
	{on: Convicted, place: onMain, verdict: open, to: State{Waiting, Accused}, effect: Report | Show | Delay | Backoff},
	{on: Precaution, place: onMain, verdict: open, to: State{Waiting, Untried}, effect: Backoff},

	{on: Outlived, place: onMain, to: State{Main, Harmless}},
	{on: Answered, place: onMain, to: State{Main, Harmless}},
	{on: Answered, place: only(Probing), verdict: only(Untried, Harmless), to: State{Probing, Harmless}},
	{on: Answered, place: only(Probing), verdict: reported, to: State{Probing, Acquitted}},

	{on: ProbeStarted, place: only(Waiting), to: State{Opening, same}},
	{on: ProbeFailed, place: only(Opening), to: State{Waiting, same}, effect: Delay},
	{on: ProbeOpened, place: only(Opening), to: State{Probing, same}},
	{on: NothingWanted, place: only(Opening), verdict: unreported, to: State{Unwanted, same}},
	{on: NothingWanted, place: only(Opening), verdict: reported, to: State{Unwanted, same}, effect: Hide},

	// A type that was answered waits like the others: the rest of its answer may be missing.
	{on: ProbeRenewed, place: only(Probing), to: State{Waiting, same}},
	{on: ProbeEnded, place: only(Probing), to: State{Waiting, same}, effect: Delay | Backoff},
	{on: ProbeBlamed, place: only(Probing), verdict: only(Untried), to: State{Waiting, Accused}, effect: Report | Show | Delay | Backoff},
	{on: ProbeBlamed, place: only(Probing), verdict: only(Harmless), to: State{Waiting, Acquitted}, effect: Report | Show | Delay | Backoff},
	{on: ProbeBlamed, place: only(Probing), verdict: reported, to: State{Waiting, same}, effect: Delay | Backoff},

	{on: Released, place: only(Probing), verdict: unreported, to: State{Main, Harmless}},
	{on: Released, place: only(Probing), verdict: reported, to: State{Main, Harmless}, effect: Hide | Clear},

	{on: Closed, place: onMain, to: keep},
	{on: Closed, place: only(Unwanted), to: keep},
	{on: Closed, place: active, verdict: unreported, to: State{Unwanted, same}},
	{on: Closed, place: active, verdict: reported, to: State{Unwanted, same}, effect: Hide},
}

var keep = State{same, same}

// transitions is made of the rows and never changes.
var transitions = transition.New(transition.Shape[State]{
	Name: "quarantine", Parts: []int{places, verdicts}, Events: int(events),
	Of: func(p transition.Parts) State { return State{Place(p[0]), Verdict(p[1])} },
}, rows)

// step moves the state along the table. It returns what else the transition does.
func (s *State) step(e Event) Effect { return transitions.Step(s, s.index(), e) }
