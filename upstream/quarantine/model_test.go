package quarantine

import "xdsrelay/relay/transition/transitiontest"

// flags restates the rules as facts that are each set and cleared by themselves, so that the table
// is held against something that was not made from it.
type flags struct {
	trusted, accused, quarantined bool
	unwanted, reported            bool
	opening, open                 bool // the probe stream

	informed, shown, hidden, cleared bool // effects of the last event
	delayed, backedOff               bool
}

// possible reports whether the caller can cause an event.
func (f *flags) possible(e Event) bool {
	switch e {
	case Suspected, Convicted, Precaution:
		return !f.quarantined && !f.trusted
	case Outlived:
		return !f.quarantined
	case Answered:
		return !f.quarantined || f.open
	case ProbeStarted:
		return f.quarantined && !f.unwanted && !f.opening && !f.open
	case ProbeFailed, ProbeOpened, NothingWanted:
		return f.opening
	case ProbeRenewed, ProbeEnded, ProbeBlamed, Released:
		return f.open
	default:
		return true
	}
}

func (f *flags) apply(e Event) {
	f.forgetEffects()
	switch e {
	case Wanted:
		f.want(true)
	case Suspected:
		f.accused = true
	case Convicted:
		f.quarantined, f.delayed, f.backedOff = true, true, true
		f.report()
	case Precaution:
		f.quarantined, f.backedOff = true, true
	case Outlived, Answered:
		f.trusted = true
	case ProbeStarted:
		f.opening = true
	case ProbeFailed:
		f.opening, f.delayed = false, true
	case ProbeOpened:
		f.opening, f.open = false, true
	case NothingWanted:
		f.opening = false
		f.want(false)
	case ProbeRenewed:
		f.open = false
	case ProbeEnded, ProbeBlamed:
		f.open, f.delayed, f.backedOff = false, true, true
		if e == ProbeBlamed {
			f.report()
		}
	case Released:
		f.hidden, f.cleared = f.reported, f.reported
		f.open, f.quarantined, f.reported, f.trusted = false, false, false, true
	case Closed:
		f.opening, f.open = false, false
		f.want(false)
	}
}

func (f *flags) forgetEffects() {
	f.informed, f.shown, f.hidden, f.cleared, f.delayed, f.backedOff = false, false, false, false, false, false
}

// want records whether clients want something of a quarantined type.
func (f *flags) want(wanted bool) {
	if f.quarantined && f.unwanted == wanted {
		f.unwanted = !wanted
		f.shown, f.hidden = f.reported && wanted, f.reported && !wanted
	}
}

func (f *flags) report() {
	if !f.reported {
		f.reported, f.informed, f.shown = true, true, true
	}
}

// expected is the state by the facts, and the effect that led to it.
func (f *flags) expected() (State, Effect) {
	place := Main
	switch {
	case !f.quarantined:
	case f.unwanted:
		place = Unwanted
	case f.opening:
		place = Opening
	case f.open:
		place = Probing
	default:
		place = Waiting
	}
	verdict := Untried
	switch {
	case f.trusted && f.reported:
		verdict = Acquitted
	case f.trusted:
		verdict = Harmless
	case f.reported, f.accused && !f.quarantined:
		verdict = Accused
	}
	return State{place, verdict}, transitiontest.Output(map[Effect]bool{
		Report: f.informed, Show: f.shown, Hide: f.hidden, Clear: f.cleared, Delay: f.delayed, Backoff: f.backedOff,
	})
}

// machine is the table with the facts.
var machine = transitiontest.Machine[State, Event, Effect, flags]{
	Table: &transitions, Number: State.index, Outputs: effectNames[:],
	Possible: (*flags).possible, Apply: (*flags).apply, Forget: (*flags).forgetEffects, Expected: (*flags).expected,
}
