package link

import "xdsrelay/relay/transition/transitiontest"

// flags restates the rules as facts that are each set and cleared by themselves, so that the table
// is held against something that was not made from it.
type flags struct {
	feed      bool // somebody is responsible for the stream
	connected bool
	reason    bool // why there is no stream is known
	borrowed  bool
	silent    bool
	untried   bool // the reason is from before the process slept

	lost, resumed, began, news, back bool // effects of the last event
}

// possible reports whether the caller can cause an event.
func (f *flags) possible(e Event) bool {
	switch e {
	case Started:
		return !f.feed
	case Up, Down, Released, Idled:
		return f.feed
	default:
		return true
	}
}

func (f *flags) apply(e Event) {
	f.forgetEffects()
	was := *f
	f.untried = f.untried && (e == Borrowed || e == Returned || e == Silenced || e == Responded || e == Slept)
	switch e {
	case Started:
		f.feed, f.reason, f.began = true, false, true
	case Up:
		f.connected, f.reason = true, false
		f.resumed, f.back = !was.connected, was.reason
	case Down:
		f.connected, f.reason = false, true
	case Borrowed, Returned:
		f.connected, f.borrowed = false, e == Borrowed
	case Silenced, Responded:
		f.silent = e == Silenced
	case Slept:
		f.untried = f.untried || f.reason && f.feed
	case Released:
		f.feed, f.connected, f.reason = false, false, false
	case Idled:
		f.feed, f.connected, f.reason, f.began = false, false, true, true
	}
	if e == Up || e == Down {
		f.news = f.connected != was.connected || f.reason != was.reason
	}
	f.began = f.began || e != Released && f.connected != was.connected
	f.lost = was.confirms() && (!f.connected || e == Slept)
}

func (f *flags) forgetEffects() {
	f.lost, f.resumed, f.began, f.news, f.back = false, false, false, false, false
}

func (f *flags) confirms() bool { return f.connected && !f.silent }

// expected is the state by the facts, and the effect that led to it.
func (f *flags) expected() (s State, _ Effect) {
	if f.borrowed {
		s.Target = OtherNode
	}
	if f.silent {
		s.Voice = Mute
	}
	switch {
	case f.connected:
		s.Phase = Established
	case f.untried:
		s.Phase = Untried
	case f.reason && f.feed:
		s.Phase = Failed
	case f.reason:
		s.Phase = Idle
	case f.feed:
		s.Phase = Connecting
	}
	return s, transitiontest.Output(map[Effect]bool{Lose: f.lost, Resume: f.resumed, Restart: f.began, News: f.news, Back: f.back})
}

// answers are the answers to the questions by the facts.
func (f *flags) answers() map[string]bool {
	return map[string]bool{
		"IsUp": f.connected, "IsDown": f.reason, "IsCutOff": f.reason && !f.untried, "HasFailed": f.reason && f.feed, "IsBorrowed": f.borrowed, "Confirms": f.confirms(),
		"AsksControlPlane": f.connected && !f.borrowed, "MayRevoke": !f.borrowed && !f.reason, "MayImprove": !f.reason, "Err": f.reason,
		"AsksFirst": !f.borrowed, "Unasked": !f.borrowed,
	}
}

// machine is the table with the facts.
var machine = transitiontest.Machine[State, Event, Effect, flags]{
	Table: &transitions, Number: State.index, Outputs: effectNames[:],
	Possible: (*flags).possible, Apply: (*flags).apply, Forget: (*flags).forgetEffects, Expected: (*flags).expected,
}
