package confidence

import "fmt"

// flags restates the rules as facts that are each set and cleared by themselves, so that the tables
// are held against something that was not made from them.
type flags struct {
	answered, assumed             bool // completely, or confirmed by the stream's silence
	carried, slept, idled, stored bool // why the content may be old
	held, awaiting                bool

	woken, forgotten, started, marked, reset bool // effects of the last event
}

// old reports whether the content, or what is known to be absent, may be old.
func (f *flags) old() bool { return f.carried || f.slept || f.idled || f.stored }

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
		f.carried, f.forgotten, f.held = true, true, false
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

// differs returns how a state and the effect that led to it contradict the facts; empty if not.
func (f *flags) differs(s State, effect Effect) string {
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
	if s != want {
		return fmt.Sprintf("%v, expected %v", s, want)
	}
	var effects Effect
	for bit, on := range map[Effect]bool{Wake: f.woken, Forget: f.forgotten, Start: f.started, Mark: f.marked, Reset: f.reset} {
		if on {
			effects |= bit
		}
	}
	if effect != effects {
		return fmt.Sprintf("the effects %05b, expected %05b", effect, effects)
	}
	return ""
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
	case Lasts:
		return !f.idled && !f.stored && !fresh
	default:
		return false
	}
}

// walk follows every event from the state of a new stream on. It calls visit for each state with
// each event, until that returns an error.
func walk(t *table, visit func(s State, e Event, c cell, before, after flags) error) error {
	type position struct {
		State
		flags
	}
	seen, queue := map[position]bool{{}: true}, []position{{}}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		for e := range events {
			c, after := t[e][p.index()], p.flags
			if after.possible(e) {
				after.apply(e)
			}
			if err := visit(p.State, e, c, p.flags, after); err != nil {
				return err
			}
			after.forgetEffects()
			if next := (position{c.to, after}); c.legal && !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// agrees compares one cell with the facts.
func agrees(s State, e Event, c cell, before, after flags) error {
	if possible := before.possible(e); possible != c.legal {
		return fmt.Errorf("%v while %v: legal %v, expected %v", e, s, c.legal, possible)
	}
	if !c.legal {
		return nil
	}
	if wrong := after.differs(c.to, c.effect); wrong != "" {
		return fmt.Errorf("%v while %v leads to %s", e, s, wrong)
	}
	return nil
}

// answersAgree compares the answers to all questions with the facts, in all states that can be
// reached.
func answersAgree(all *[questions][states]Answer) error {
	return walk(transitions, func(s State, _ Event, _ cell, facts, _ flags) error {
		for q := range questions {
			want := No
			switch before, after := facts.answer(q, false), facts.answer(q, true); {
			case before && after:
				want = Yes
			case before:
				want = UntilSilence
			case after:
				want = AfterSilence
			}
			if is := all[q][s.index()]; is != want {
				return fmt.Errorf("%v while %v: %v, expected %v", q, s, is, want)
			}
		}
		return nil
	})
}
