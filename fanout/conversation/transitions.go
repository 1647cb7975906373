package conversation

import "xdsrelay/relay/transition"

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

// parts is a set that says whether parts are to follow; 0 means either, or unchanged.
type parts transition.Set[uint8]

const (
	last parts = 1 << iota
	follow
)

// row is a row of the table: in the states that match, the event leads to the next state.
type row struct {
	on      Event
	phase   transition.Set[Phase]
	verdict transition.Set[Verdict]
	kind    transition.Set[Kind]
	parts   parts

	to     State // same: unchanged; More is unused
	after  parts
	effect Effect
}

// Row is the row as package transition has it.
func (r row) Row() transition.Row[Event, Effect] {
	more := [...]uint8{same, 0, 1}[r.after]
	return transition.Row[Event, Effect]{
		On: r.on, In: transition.Parts{uint8(r.phase), uint8(r.verdict), uint8(r.kind), uint8(r.parts)},
		To: transition.Parts{uint8(r.to.Phase), uint8(r.to.Verdict), uint8(r.to.Kind), more}, Output: r.effect,
	}
}

const same = transition.Same

func only[T ~uint8](of ...T) transition.Set[T] { return transition.Only(of...) }

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
var rows = []row{
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

// transitions is made of the rows and never changes.
var transitions = transition.New(transition.Shape[State]{
	Name: "conversation", Parts: []int{phases, verdicts, kinds, 2}, Events: int(events),
	Of: func(p transition.Parts) State { return State{Phase(p[0]), Verdict(p[1]), Kind(p[2]), p[3] == 1} },
}, rows)

// step moves the state along the table. It returns what else the transition does.
func (s *State) step(e Event) Effect { return transitions.Step(s, s.index(), e) }
