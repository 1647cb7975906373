package conversation

import "xdsrelay/relay/transition/transitiontest"

// flags restates the rules as facts that are each set and cleared by themselves, so that the table
// is held against something that was not made from it.
type flags struct {
	responses                  bool // one was sent
	open                       bool // the newest one is unanswered
	inFlight                   bool // and newer ones wait for that
	more                       bool
	errorsOnly                 bool // the newest one says nothing of resources
	repeats                    bool // the newest one has all that was rejected
	notes                      bool // the newest one has notes only
	pending, held              bool
	accepted, tainted, lowered bool // effects of the last event
	freed, recorded            bool
	crossed, uncrossed         bool
}

// possible reports whether the caller can cause an event.
func (f *flags) possible(e Event) bool {
	switch e {
	case SentContent, SentPart, SentErrors, SkippedPart, TableSwitched, Skipped:
		return !f.inFlight
	case SentOnDemand:
		return !f.inFlight && !f.pending && !f.held
	case SentNotes:
		return !f.inFlight && f.held
	case ACK, NACK, Forgotten:
		return f.responses
	case AckTimeout:
		return f.open
	default:
		return true
	}
}

func (f *flags) apply(e Event) {
	f.forgetEffects()
	switch e {
	case SentContent, SentPart, SentOnDemand, SentNotes, SentErrors:
		f.sent(e)
	case Skipped, SkippedPart:
		f.more = e == SkippedPart
		f.hold()
	case NoNews:
		f.more = false
		f.hold()
	case ACK, NACK:
		f.answered(e == NACK)
	case LateNACK:
		if f.open && !f.repeats {
			f.recorded = true
			f.reject()
		}
	case AckTimeout:
		f.inFlight, f.uncrossed = false, true
	case Forgotten:
		f.inFlight = false
	case Unsubscribe:
		f.crossed = f.open
	case TableSwitched:
		f.pending, f.held, f.repeats, f.notes, f.more = false, false, false, false, false
	}
}

func (f *flags) forgetEffects() {
	f.accepted, f.tainted, f.lowered, f.freed, f.recorded, f.crossed, f.uncrossed = false, false, false, false, false, false, false
}

func (f *flags) sent(e Event) {
	f.responses, f.open, f.inFlight = true, true, true
	f.errorsOnly, f.repeats, f.notes = e == SentErrors, false, e == SentNotes
	if e == SentErrors || e == SentNotes {
		return
	}
	if e != SentOnDemand {
		f.more = e == SentPart
	}
	if f.held {
		f.held, f.repeats = false, !f.more
	}
}

func (f *flags) answered(rejected bool) {
	if !f.open {
		return
	}
	f.open, f.inFlight, f.freed, f.uncrossed = false, false, true, true
	f.recorded = rejected
	if rejected && !f.errorsOnly {
		f.reject()
	}
	if !rejected && !f.errorsOnly && !f.pending && !f.held {
		f.accepted = true
	}
	f.hold()
}

func (f *flags) reject() {
	if !f.held {
		f.pending, f.tainted = true, true
	}
}

func (f *flags) hold() {
	if f.pending && !f.more && !f.open {
		f.pending, f.held, f.lowered = false, true, true
	}
}

// expected is the state by the facts, and the effect that led to it.
func (f *flags) expected() (State, Effect) {
	phase, verdict, kind := None, Clean, Content
	switch {
	case f.inFlight:
		phase = Awaiting
	case f.open:
		phase = Expired
	case f.responses:
		phase = Idle
	}
	switch {
	case f.held:
		verdict = Held
	case f.pending:
		verdict = Tainted
	}
	switch {
	case !f.open:
	case f.errorsOnly:
		kind = Errors
	case f.repeats:
		kind = Repeat
	case f.notes:
		kind = Notes
	}
	return State{phase, verdict, kind, f.more}, transitiontest.Output(map[Effect]bool{
		Accept: f.accepted, Taint: f.tainted, Hold: f.lowered, Settle: f.freed, Record: f.recorded, Cross: f.crossed, Uncross: f.uncrossed,
	})
}

// machine is the table with the facts.
var machine = transitiontest.Machine[State, Event, Effect, flags]{
	Table: &transitions, Number: State.index, Outputs: effectNames[:],
	Possible: (*flags).possible, Apply: (*flags).apply, Forget: (*flags).forgetEffects, Expected: (*flags).expected,
}
