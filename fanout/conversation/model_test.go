package conversation

import "fmt"

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
	f.accepted, f.tainted, f.lowered, f.freed, f.recorded, f.crossed, f.uncrossed = false, false, false, false, false, false, false
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

// differs returns how a state and the effect that led to it contradict the facts; empty if not.
func (f *flags) differs(s State, effect Effect) string {
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
	if want := (State{phase, verdict, kind, f.more}); s != want {
		return fmt.Sprintf("%v, expected %v", s, want)
	}
	var want Effect
	for bit, on := range map[Effect]bool{
		Accept: f.accepted, Taint: f.tainted, Hold: f.lowered, Settle: f.freed, Record: f.recorded, Cross: f.crossed, Uncross: f.uncrossed,
	} {
		if on {
			want |= bit
		}
	}
	if effect != want {
		return fmt.Sprintf("the effects %07b, expected %07b", effect, want)
	}
	return ""
}

// walk follows every event from the state of a new stream on. It calls visit for each state with
// each event, until that returns an error.
func walk(t *table, visit func(s State, e Event, c cell, before, after flags) error) error {
	type place struct {
		State
		flags
	}
	seen, queue := map[place]bool{{}: true}, []place{{}}
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
			after.accepted, after.tainted, after.lowered, after.freed, after.recorded, after.crossed, after.uncrossed = false, false, false, false, false, false, false
			if next := (place{c.to, after}); c.legal && !seen[next] {
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
