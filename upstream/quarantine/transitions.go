package quarantine

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

// set is a set of places or verdicts, as bits; 0 means all.
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
	on      Event
	place   set
	verdict set

	to     State // same: unchanged
	effect Effect
}

// Sets of the rows, by what they have in common.
var (
	onMain     = only(Main)
	active     = only(Waiting, Opening, Probing)
	open       = only(Untried, Accused)   // the verdict may still change
	reported   = only(Accused, Acquitted) // operators were informed, if the type is quarantined
	unreported = only(Untried, Harmless)
)

// rows are the transitions. All other pairs of a state and an event are illegal.
var rows = []transition{
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
		if !yield(State{Place(i / verdicts), Verdict(i % verdicts)}) {
			return
		}
	}
}

func (r *transition) matches(s State) bool {
	return r.place.has(uint8(s.Place)) && r.verdict.has(uint8(s.Verdict))
}

func (r *transition) next(s State) State {
	if r.to.Place != same {
		s.Place = r.to.Place
	}
	if r.to.Verdict != same {
		s.Verdict = r.to.Verdict
	}
	return s
}

// step moves the state along the table. It returns what else the transition does.
func (s *State) step(e Event) Effect {
	c := &transitions[e][s.index()]
	if checked && !c.legal {
		panic("quarantine: " + e.String() + " while " + s.String())
	}
	*s = c.to
	return c.effect
}
