package conversation

import "xdsrelay/relay/transition/transitiontest"

// flags restates the rules as facts that are each set and cleared by themselves, so that the table
// is held against something that was not made from it.
type flags struct {
	Variant
	sent         bool // a request was sent
	wild         bool // the wildcard is subscribed
	named        bool // SotW: a request had names. Delta: the wildcard was named
	unsubscribed bool // delta: a request has unsubscribed from something
	ambiguous    bool // SotW: one without names was sent before that, and the server may have read only that
	responses    bool // one was received
	owed         bool // the reply to it is owed
	rejected     bool // the newest response was rejected
	deferred     bool // the reply to it waits for canaries
	reported     bool // it was acknowledged, and a failure found later was reported
	partial      bool

	lists, leaves, renews, accepts, rejects, reports bool // effects of the last event
}

// possible reports whether the caller can cause an event.
func (f *flags) possible(e Event) bool {
	replied := !f.owed && !f.deferred
	switch e {
	case AskNothing, AskNames, AskImplicit, AskWildcard:
		return replied
	case AskWildcardAgain:
		return replied && f.sent
	case Unsubscribed:
		return f.Variant == Delta && replied
	case LargeFrame:
		return f.Variant == Delta && f.sent && replied
	case FramesEnd:
		return f.partial
	case Valid, Invalid, Gated:
		return f.sent && replied
	case Passed:
		return f.deferred
	case Failed: // at most once for a response, and never after a NACK
		return f.deferred || replied && f.responses && !f.rejected && !f.reported
	default:
		return f.owed
	}
}

func (f *flags) apply(e Event) {
	f.forgetEffects()
	switch e {
	case AskNothing, AskNames, AskImplicit, AskWildcard, AskWildcardAgain:
		if f.Variant == SotW {
			f.askSotW(e)
		} else {
			f.askDelta(e)
		}
	case Unsubscribed:
		f.unsubscribed, f.sent = true, true
	case LargeFrame:
		f.partial = true
	case FramesEnd:
		f.partial = false
	case Valid, Invalid:
		f.responses, f.owed, f.rejected, f.reported = true, true, e == Invalid, false
		f.accepts, f.rejects = e == Valid, e == Invalid
	case Gated:
		f.responses, f.deferred, f.rejected, f.reported = true, true, false, false
	case Passed:
		f.deferred, f.owed, f.accepts = false, true, true
	case Failed:
		f.reports, f.rejects = !f.deferred, f.deferred
		f.owed, f.rejected, f.reported, f.deferred = f.deferred, f.deferred, !f.deferred, false
	case Replied:
		f.owed, f.ambiguous = false, false
	}
}

func (f *flags) askSotW(e Event) {
	wild, names := e >= AskImplicit, e == AskNames || e == AskWildcard
	switch {
	case f.wild && !f.named && e == AskNothing, f.sent && wild && !f.wild, e == AskWildcardAgain,
		f.ambiguous && !wild, f.wild && !f.named && !f.responses && e == AskNames:
		f.renews = true
		return
	case !f.sent && e == AskNothing:
		return
	}
	f.ambiguous = f.ambiguous || f.wild && !f.named && !f.responses && names
	f.sent, f.wild, f.named = true, wild, f.named || names
	f.lists = wild && f.named
}

func (f *flags) askDelta(e Event) {
	wild, first := e >= AskImplicit, !f.sent
	switch {
	case wild && !f.wild && f.unsubscribed, f.wild && e == AskWildcardAgain:
		f.renews = true
		return
	case first && e == AskNothing:
		return
	}
	f.sent = true
	switch {
	case wild && (first || !f.wild):
		f.named = !first || e != AskImplicit
		f.lists = f.named
	case wild:
		f.lists = e == AskWildcard && !f.named
		f.named = f.named || f.lists
	case f.wild:
		f.leaves, f.lists = true, !f.named
		f.unsubscribed, f.named = true, true
	default:
		f.named = true
	}
	f.wild = wild
}

func (f *flags) forgetEffects() {
	f.lists, f.leaves, f.renews, f.accepts, f.rejects, f.reports = false, false, false, false, false, false
}

// expected is the state by the facts, and the effect that led to it.
func (f *flags) expected() (State, Effect) {
	scope := Names
	switch {
	case !f.sent:
		scope = New
	case f.wild && !f.named:
		scope = Implicit
	case f.ambiguous:
		scope = Ambiguous
	case f.wild:
		scope = Wildcard
	case f.Variant == Delta && f.unsubscribed:
		scope = Reduced
	}
	reply := None
	switch {
	case f.deferred:
		reply = Deferred
	case f.reported:
		reply = Reported
	case f.owed && f.rejected:
		reply = NackOwed
	case f.owed:
		reply = AckOwed
	case f.responses && f.rejected:
		reply = Nacked
	case f.responses:
		reply = Acked
	}
	frames := Complete
	if f.partial {
		frames = Partial
	}
	return State{scope, reply, frames}, transitiontest.Output(map[Effect]bool{
		Name: f.lists, Leave: f.leaves, Renew: f.renews, Accept: f.accepts, Reject: f.rejects, Report: f.reports,
	})
}

// machines are the tables with the facts.
var machines = [variants]transitiontest.Machine[State, Event, Effect, flags]{SotW: machineOf(SotW), Delta: machineOf(Delta)}

func machineOf(v Variant) transitiontest.Machine[State, Event, Effect, flags] {
	return transitiontest.Machine[State, Event, Effect, flags]{
		Table: &transitions[v], Number: State.index, Outputs: effectNames[:], Start: flags{Variant: v},
		Possible: (*flags).possible, Apply: (*flags).apply, Forget: (*flags).forgetEffects, Expected: (*flags).expected,
	}
}
