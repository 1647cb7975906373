package confidence

import (
	"fmt"

	"xdsrelay/relay/transition"
	"xdsrelay/relay/transition/transitiontest"
)

// flags restates the rules as facts that are each set and cleared by themselves, so that the tables
// are held against something that was not made from them.
type flags struct {
	answered, assumed                     bool // completely, or confirmed by the stream's silence
	vacant, carried, slept, idled, stored bool // why the content may be old
	held, awaiting                        bool

	woken, forgotten, started, marked, reset bool // effects of the last event
}

// old reports whether the content, or what is known to be absent, may be old.
func (f *flags) old() bool { return f.vacant || f.carried || f.slept || f.idled || f.stored }

// possible reports whether the caller can cause an event.
func (f *flags) possible(e Event) bool {
	return e != HoldBegan || f.old()
}

func (f *flags) apply(e Event) {
	f.forgetEffects()
	switch e {
	case Answered:
		*f = flags{answered: true, woken: f.held || f.awaiting, forgotten: true, reset: true}
	case PartAnswered:
		f.started = !f.awaiting
		f.awaiting = true
	case AskedAgain:
		f.awaiting, f.started, f.marked = true, true, true
	case AskedMore:
		f.awaiting, f.started = f.awaiting || f.stored, f.stored
	case Moved:
		f.carried, f.forgotten = true, true
	case Resumed:
		f.idled, f.forgotten, f.held = true, true, false
	case ResumedEmpty:
		f.vacant, f.forgotten, f.held = true, true, false
	case Woke:
		f.slept, f.forgotten, f.held, f.awaiting, f.started = true, true, false, true, true
	case CopyRestored:
		f.stored = true
	case NamesAssumed:
		f.assumed = true
	case HoldBegan:
		f.held = true
	case HoldEnded:
		f.held, f.woken = false, f.held
	case Released:
		f.held, f.awaiting, f.woken, f.marked = false, false, f.held || f.awaiting, f.awaiting
	case StayedUp:
		if f.slept && !f.idled && !f.stored {
			*f = flags{answered: true, woken: true, forgotten: true, marked: f.awaiting}
		}
	}
}

func (f *flags) forgetEffects() {
	f.woken, f.forgotten, f.started, f.marked, f.reset = false, false, false, false, false
}

// expected is the state by the facts, and the effect that led to it.
func (f *flags) expected() (State, Effect) {
	want := State{Unknown, Settled}
	switch {
	case f.stored:
		want.Basis = Restored
	case f.idled:
		want.Basis = Idled
	case f.slept:
		want.Basis = Slept
	case f.carried:
		want.Basis = Carried
	case f.vacant:
		want.Basis = Vacant
	case f.assumed:
		want.Basis = Assumed
	case f.answered:
		want.Basis = Confirmed
	}
	switch {
	case f.held && f.awaiting:
		want.Wait = HeldAwaiting
	case f.held:
		want.Wait = Held
	case f.awaiting:
		want.Wait = Awaiting
	}
	return want, transitiontest.Output(map[Effect]bool{Wake: f.woken, Forget: f.forgotten, Start: f.started, Mark: f.marked, Reset: f.reset})
}

// answer is the answer to a question by the facts. silence says that an answer has been awaited for
// that long, if one is.
func (f *flags) answer(q Question, silence bool) bool {
	fresh := f.awaiting && !silence // the control plane may still answer
	switch q {
	case Withheld:
		return f.held
	case Unconfirmed:
		return f.assumed || f.old()
	case FromLastGood:
		return f.stored
	case Missed:
		return f.slept || f.idled || f.stored
	case Older:
		return f.idled || f.stored || fresh
	case Open:
		return f.held || fresh
	case Confirms:
		return f.answered && !f.assumed && !f.old() && !f.awaiting
	case Silent:
		return !f.stored && (!f.carried || f.slept || f.idled)
	case Lasts:
		return !f.idled && !f.stored && !fresh
	default:
		return false
	}
}

// machine is the table with the facts.
var machine = transitiontest.Machine[State, Event, Effect, flags]{
	Table: &transitions, Number: State.index, Outputs: effectNames[:],
	Possible: (*flags).possible, Apply: (*flags).apply, Forget: (*flags).forgetEffects, Expected: (*flags).expected,
}

// answersAgree compares the answers to all questions with the facts, in all states that can be
// reached.
func answersAgree(all *transition.Table[State, Question, Answer]) error {
	return machine.Walk(&transitions, func(step *transitiontest.Step[State, Event, Effect, flags]) error {
		for q := range questions {
			want := No
			switch before, after := step.Before.answer(q, false), step.Before.answer(q, true); {
			case before && after:
				want = Yes
			case before:
				want = UntilSilence
			case after:
				want = AfterSilence
			}
			if is := all.Output(q, step.State.index()); is != want {
				return fmt.Errorf("%v while %v: %v, expected %v", q, step.State, is, want)
			}
		}
		return nil
	})
}
