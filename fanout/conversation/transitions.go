package conversation

// Effect is what a transition does besides changing the state.
type Effect uint8

const (
	// Accept: the client has accepted all that it was sent.
	Accept Effect = 1 << iota
	// Taint: the client rejects the content of the newest response. Changes since then are
	// news.
	Taint
	// Hold: the content from the rejected generation on counts as unsent.
	Hold
	// Settle: the bytes of unanswered responses are free.
	Settle
	// Record: the reason of the NACK is recorded.
	Record
	// Cross: something was dropped while a response was unanswered, which may have it.
	Cross
	// Uncross: nothing unanswered has what was dropped.
	Uncross
)

// set is a set of phases, verdicts or kinds, as bits; 0 means all.
type set uint8

func only[T ~uint8](of ...T) (s set) {
	for _, v := range of {
		s |= 1 << v
	}
	return s
}

func (s set) has(v uint8) bool { return s == 0 || s&(1<<v) != 0 }

// parts says whether parts are to follow; 0 means either, or unchanged.
type parts uint8

const (
	last parts = 1 + iota
	follow
)

// same marks a part of the state that a transition keeps.
const same = 0xff

// transition is a row of the table: in the states that match, the event leads to the next state.
type transition struct {
	on      Event
	phase   set
	verdict set
	kind    set
	parts   parts

	to     State // same: unchanged; More is unused
	after  parts
	effect Effect
}

// Sets of the rows, by what they have in common.
var (
	unanswered = only(Awaiting, Expired)
	answered   = only(None, Idle)
	free       = only(None, Idle, Expired) // to send something
	began      = only(Idle)
	inContent  = only(Content, Repeat, Notes)
	held       = only(Held)
	tainted    = only(Tainted)
	clean      = only(Clean)
	notHeld    = only(Clean, Tainted)
)

// rows are the transitions. All other pairs of a state and an event are illegal.
var rows = []transition{
	// Content that is sent after a NACK repeats what was rejected (B16).
	{on: SentContent, phase: free, verdict: notHeld, to: State{Phase: Awaiting, Verdict: same, Kind: Content}, after: last},
	{on: SentContent, phase: free, verdict: held, to: State{Phase: Awaiting, Verdict: Clean, Kind: Repeat}, after: last},
	{on: SentPart, phase: free, verdict: notHeld, to: State{Phase: Awaiting, Verdict: same, Kind: Content}, after: follow},
	{on: SentPart, phase: free, verdict: held, to: State{Phase: Awaiting, Verdict: Clean, Kind: Content}, after: follow},
	{on: SentOnDemand, phase: free, verdict: clean, to: State{Phase: Awaiting, Verdict: same, Kind: Content}},
	{on: SentNotes, phase: free, verdict: held, to: State{Phase: Awaiting, Verdict: same, Kind: Notes}},
	{on: SentErrors, phase: free, to: State{Phase: Awaiting, Verdict: same, Kind: Errors}},

	// A NACK holds the type once the last part was answered or skipped (B14).
	{on: Skipped, phase: began, verdict: tainted, to: State{Phase: same, Verdict: Held, Kind: same}, after: last, effect: Hold},
	{on: Skipped, phase: answered, verdict: only(Clean, Held), to: keep, after: last},
	{on: Skipped, phase: only(Expired), to: keep, after: last},
	{on: SkippedPart, phase: free, to: keep, after: follow},
	{on: NoNews, phase: began, verdict: tainted, to: State{Phase: same, Verdict: Held, Kind: same}, after: last, effect: Hold},
	{on: NoNews, phase: answered, verdict: only(Clean, Held), to: keep, after: last},
	{on: NoNews, phase: unanswered, to: keep, after: last},

	// An ACK says nothing of an older response that was rejected, nor does one of errors or notes.
	{on: ACK, phase: unanswered, verdict: clean, kind: inContent, to: State{Phase: Idle, Verdict: Clean, Kind: Content}, effect: Accept | Settle | Uncross},
	{on: ACK, phase: unanswered, verdict: clean, kind: only(Errors), to: idle, effect: Settle | Uncross},
	{on: ACK, phase: unanswered, verdict: tainted, parts: follow, to: idle, effect: Settle | Uncross},
	{on: ACK, phase: unanswered, verdict: tainted, parts: last, to: State{Phase: Idle, Verdict: Held, Kind: Content}, effect: Settle | Uncross | Hold},
	{on: ACK, phase: unanswered, verdict: held, to: idle, effect: Settle | Uncross},
	{on: NACK, phase: unanswered, verdict: notHeld, kind: inContent, parts: follow, to: State{Phase: Idle, Verdict: Tainted, Kind: Content}, effect: Settle | Uncross | Record | Taint},
	{on: NACK, phase: unanswered, verdict: notHeld, kind: inContent, parts: last, to: State{Phase: Idle, Verdict: Held, Kind: Content}, effect: Settle | Uncross | Record | Taint | Hold},
	{on: NACK, phase: unanswered, verdict: clean, kind: only(Errors), to: idle, effect: Settle | Uncross | Record},
	{on: NACK, phase: unanswered, verdict: tainted, kind: only(Errors), parts: follow, to: idle, effect: Settle | Uncross | Record},
	{on: NACK, phase: unanswered, verdict: tainted, kind: only(Errors), parts: last, to: State{Phase: Idle, Verdict: Held, Kind: Content}, effect: Settle | Uncross | Record | Hold},
	{on: NACK, phase: unanswered, verdict: held, to: idle, effect: Settle | Uncross | Record},
	{on: ACK, phase: began, to: keep}, // a second answer only states names
	{on: NACK, phase: began, to: keep},

	// A late NACK does not answer the newest response (B8).
	{on: LateNACK, phase: answered, to: keep},
	{on: LateNACK, phase: unanswered, kind: only(Repeat), to: keep},
	{on: LateNACK, phase: unanswered, verdict: notHeld, kind: only(Content, Notes, Errors), to: State{Phase: same, Verdict: Tainted, Kind: same}, effect: Record | Taint},
	{on: LateNACK, phase: unanswered, verdict: held, kind: only(Content, Notes, Errors), to: keep, effect: Record},

	{on: AckTimeout, phase: unanswered, to: State{Phase: Expired, Verdict: same, Kind: same}, effect: Uncross},
	{on: Forgotten, phase: unanswered, to: State{Phase: Expired, Verdict: same, Kind: same}},
	{on: Forgotten, phase: began, to: keep},
	{on: Unsubscribe, phase: unanswered, to: keep, effect: Cross},
	{on: Unsubscribe, phase: answered, to: keep},

	// The client knows nothing of the new table, so it has rejected nothing of it.
	{on: TableSwitched, phase: free, kind: inContent, to: State{Phase: same, Verdict: Clean, Kind: Content}, after: last},
	{on: TableSwitched, phase: free, kind: only(Errors), to: State{Phase: same, Verdict: Clean, Kind: Errors}, after: last},
}

var (
	keep = State{Phase: same, Verdict: same, Kind: same}
	idle = State{Phase: Idle, Verdict: same, Kind: Content}
)

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
		s := State{Phase(i / 2 / kinds / verdicts), Verdict(i / 2 / kinds % verdicts), Kind(i / 2 % kinds), i%2 == 1}
		if !yield(s) {
			return
		}
	}
}

func (r *transition) matches(s State) bool {
	return r.phase.has(uint8(s.Phase)) && r.verdict.has(uint8(s.Verdict)) && r.kind.has(uint8(s.Kind)) &&
		(r.parts == 0 || r.parts == follow == s.More)
}

func (r *transition) next(s State) State {
	if r.to.Phase != same {
		s.Phase = r.to.Phase
	}
	if r.to.Verdict != same {
		s.Verdict = r.to.Verdict
	}
	if r.to.Kind != same {
		s.Kind = r.to.Kind
	}
	if r.after != 0 {
		s.More = r.after == follow
	}
	return s
}

// step moves the state along the table. It returns what else the transition does.
func (s *State) step(e Event) Effect {
	c := &transitions[e][s.index()]
	if checked && !c.legal {
		panic("conversation: " + e.String() + " while " + s.String())
	}
	*s = c.to
	return c.effect
}
