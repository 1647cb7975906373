package rollout

import "xdsrelay/relay/transition/transitiontest"

// facts restates the rules as facts that are each set and cleared by themselves, so that the table
// is held against something that was not made from it.
type facts struct {
	pending  bool // the control plane has content that waits for quiet
	refused  bool // the key is held
	scouts   bool // a revision is on its way, to scouts
	share    bool // the same, to a share of the clients
	final    bool // all clients have it, and it is not good yet
	approved bool // the step is approved
	granted  bool // the step has tokens
	exposed  bool // the step has canaries that bake
	braked   bool

	back, promoted, undone, refuses, reports, proven, rebaked, advanced bool // effects of the last event
}

func (f *facts) underWay() bool { return f.scouts || f.share }

// waits reports whether the revision on its way may be widened next.
func (f *facts) waits() bool { return f.underWay() && !f.pending && !f.braked }

// possible reports whether the caller can cause an event.
func (f *facts) possible(e Event) bool {
	switch e {
	case Cut, CutRefused:
		return f.pending && !f.braked
	case CutSame:
		return f.pending && !f.braked && f.underWay()
	case Approved:
		return f.waits() && !f.approved
	case Granted:
		return f.waits() && f.approved && !f.granted
	case Chosen:
		return f.waits() && f.granted && !f.exposed
	case Promoted:
		return f.waits() && f.granted && !f.exposed && f.share
	case Passed:
		return (f.waits() || f.final && !f.braked) && f.exposed
	case Outgrown:
		return f.waits() && f.exposed
	case Failed:
		return f.underWay() || f.final
	case Aborted:
		return f.underWay() || f.final || f.refused
	case Skipped:
		return f.pending || f.underWay() || f.final || f.refused
	case Stopped:
		return !f.braked
	case Released:
		return f.braked
	default:
		return true
	}
}

func (f *facts) apply(e Event) {
	f.forgetEffects()
	switch e {
	case Changed:
		if !f.final {
			f.pending = true
			f.again()
		}
	case Withdrawn:
		if !f.final {
			f.back = f.underWay() || f.refused
			f.end()
			f.pending, f.refused = false, false
		}
	case Cut:
		f.back = f.underWay() || f.refused
		f.end()
		f.pending, f.refused, f.scouts = false, false, true
	case CutSame:
		f.pending = false
	case CutRefused:
		f.back = f.underWay()
		f.end()
		f.pending, f.refused = false, true
	case Approved:
		f.approved = true
	case Granted:
		f.granted = true
	case Chosen:
		f.exposed, f.rebaked = true, true
	case Promoted:
		f.end()
		f.final, f.exposed, f.promoted, f.rebaked = true, true, true, true
	case Passed:
		f.passed()
	case Outgrown:
		f.scouts, f.share, f.granted, f.exposed = true, false, false, false // approved as it is
	case Failed, Aborted:
		f.fail(e)
	case Skipped:
		f.end()
		f.pending, f.refused, f.promoted, f.proven = false, false, true, true
	case Undone:
		f.back = f.underWay() || f.refused
		f.end()
		f.refused, f.undone, f.refuses = true, true, true
	case Stopped:
		f.braked = true
	case Released:
		f.braked, f.rebaked = false, f.exposed
	}
}

func (f *facts) forgetEffects() {
	f.back, f.promoted, f.undone, f.refuses, f.reports, f.proven, f.rebaked, f.advanced = false, false, false, false, false, false, false, false
}

// again makes the step begin again, from its approval on.
func (f *facts) again() { f.approved, f.granted, f.exposed = false, false, false }

// end makes no revision be on its way.
func (f *facts) end() {
	f.scouts, f.share, f.final = false, false, false
	f.again()
}

func (f *facts) passed() {
	if f.final {
		f.end()
		f.proven = true
		return
	}
	f.scouts, f.share, f.advanced = false, true, true
	f.again()
}

func (f *facts) fail(e Event) {
	f.back, f.undone = !f.final, f.final
	f.refuses, f.reports = !f.refused, e == Failed
	f.end()
	f.refused = true
}

// expected is the state by the facts, and the effect that led to it.
func (f *facts) expected() (State, Effect) {
	var s State
	switch {
	case f.refused:
		s.Phase = Held
	case f.scouts:
		s.Phase = Scouting
	case f.share:
		s.Phase = Stepping
	case f.final:
		s.Phase = Proving
	case f.pending:
		s.Phase = Settling
	}
	switch {
	case f.pending:
		s.Need = Quiet
	case f.exposed:
		s.Need = Bake
	case f.granted:
		s.Need = Write
	case f.approved:
		s.Need = Tokens
	case f.underWay():
		s.Need = Approval
	}
	if f.braked {
		s.Brake = Braked
	}
	return s, transitiontest.Output(map[Effect]bool{
		Rollback: f.back, Promote: f.promoted, Undo: f.undone, Refuse: f.refuses,
		Report: f.reports, Prove: f.proven, Rebake: f.rebaked, Advance: f.advanced,
	})
}

// machine is the table with the facts.
var machine = transitiontest.Machine[State, Event, Effect, facts]{
	Table: &transitions, Number: State.index, Outputs: effectNames[:],
	Possible: (*facts).possible, Apply: (*facts).apply, Forget: (*facts).forgetEffects, Expected: (*facts).expected,
}
