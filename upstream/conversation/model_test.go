package conversation

import "fmt"

// flags restates the rules as facts that are each set and cleared by themselves, so that the table
// is held against something that was not made from it.
type flags struct {
	sent         bool // a request was sent
	wild         bool // the wildcard is subscribed
	named        bool // SotW: a request had names. Delta: the wildcard was named
	unsubscribed bool // delta: a request has unsubscribed from something
	responses    bool // one was received
	owed         bool // the reply to it is owed
	rejected     bool // the newest response was rejected
	partial      bool

	lists, leaves, renews, accepts, rejects bool // effects of the last event
}

// possible reports whether the caller can cause an event.
func (f *flags) possible(v Variant, e Event) bool {
	switch e {
	case AskNothing, AskNames, AskImplicit, AskWildcard:
		return !f.owed
	case AskWildcardAgain:
		return !f.owed && f.sent
	case Unsubscribed:
		return v == Delta && !f.owed
	case LargeFrame:
		return v == Delta && f.sent && !f.owed
	case FramesEnd:
		return f.partial
	case Valid, Invalid:
		return f.sent && !f.owed
	default:
		return f.owed
	}
}

func (f *flags) apply(v Variant, e Event) {
	f.forgetEffects()
	switch e {
	case AskNothing, AskNames, AskImplicit, AskWildcard, AskWildcardAgain:
		if v == SotW {
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
		f.responses, f.owed, f.rejected = true, true, e == Invalid
		f.accepts, f.rejects = e == Valid, e == Invalid
	case Replied:
		f.owed = false
	}
}

func (f *flags) askSotW(e Event) {
	wild, names := e >= AskImplicit, e == AskNames || e == AskWildcard
	switch {
	case f.wild && !f.named && e == AskNothing, f.sent && wild && !f.wild, e == AskWildcardAgain:
		f.renews = true
		return
	case !f.sent && e == AskNothing:
		return
	}
	f.sent, f.wild, f.named = true, wild, f.named || names
	f.lists = wild && f.named
}

func (f *flags) askDelta(e Event) {
	wild, first := e >= AskImplicit, !f.sent
	switch {
	case wild && !f.wild && f.unsubscribed:
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
		f.lists = e == AskWildcardAgain || e == AskWildcard && !f.named
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
	f.lists, f.leaves, f.renews, f.accepts, f.rejects = false, false, false, false, false
}

// differs returns how a state and the effect that led to it contradict the facts; empty if not.
func (f *flags) differs(v Variant, s State, effect Effect) string {
	scope := Names
	switch {
	case !f.sent:
		scope = New
	case f.wild && !f.named:
		scope = Implicit
	case f.wild:
		scope = Wildcard
	case v == Delta && f.unsubscribed:
		scope = Reduced
	}
	reply := None
	switch {
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
	if want := (State{scope, reply, frames}); s != want {
		return fmt.Sprintf("%v, expected %v", s, want)
	}
	var want Effect
	for bit, on := range map[Effect]bool{Name: f.lists, Leave: f.leaves, Renew: f.renews, Accept: f.accepts, Reject: f.rejects} {
		if on {
			want |= bit
		}
	}
	if effect != want {
		return fmt.Sprintf("the effects %05b, expected %05b", effect, want)
	}
	return ""
}

// walk follows every event from the state of a new stream on. It calls visit for each state with
// each event, until that returns an error.
func walk(t *table, v Variant, visit func(s State, e Event, c cell, before, after flags) error) error {
	type position struct {
		State
		flags
	}
	seen, queue := map[position]bool{{}: true}, []position{{}}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		for e := range events {
			c, after := t[v][e][p.index()], p.flags
			if after.possible(v, e) {
				after.apply(v, e)
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
func agrees(v Variant) func(s State, e Event, c cell, before, after flags) error {
	return func(s State, e Event, c cell, before, after flags) error {
		if possible := before.possible(v, e); possible != c.legal {
			return fmt.Errorf("%v: %v while %v: legal %v, expected %v", v, e, s, c.legal, possible)
		}
		if !c.legal {
			return nil
		}
		if wrong := after.differs(v, c.to, c.effect); wrong != "" {
			return fmt.Errorf("%v: %v while %v leads to %s", v, e, s, wrong)
		}
		return nil
	}
}
