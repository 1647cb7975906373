package quarantine

import (
	"cmp"
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

const (
	// Window is how long after a request the end of the stream may be due to it. A type that was
	// requested longer ago is harmless.
	Window = 5 * time.Second

	// Proof is how many points of evidence quarantine a type. Strong and Weak are how many points the
	// end of a stream is worth if its error probably has to do with a request, and if it may have any
	// reason. Weak evidence counts only if the next stream uses the same connection: a server that
	// shuts down, or a broken connection, says nothing about types.
	Proof  = 6
	Strong = Proof / 2
	Weak   = 2

	// A quarantined type is requested again after FirstProbe, then each time after twice as long, up
	// to LastProbe: the server may support the type after an upgrade.
	FirstProbe = time.Second
	LastProbe  = 5 * time.Minute
)

// Caution is where a type that is new to the server is requested first.
type Caution uint8

const (
	// Trusting: on the main stream.
	Trusting Caution = iota
	// Cautious: on a probe stream, since a type has ended one. So no further type ends the main
	// stream.
	Cautious
)

// Types is what a key has learned about the types that it requests from one server. The caller
// guards it. The zero value knows no type.
type Types struct {
	// Jitter makes a pause longer or shorter at random; nil for tests.
	Jitter func(time.Duration) time.Duration

	all      map[string]*state // by type URL; types that are not listed are untried
	harmless int               // how many of them are harmless
	caution  Caution
	// suspicion is weak evidence that waits for the next stream, nil if there is none.
	suspicion *suspicion
	probed    *state // the type that has a probe stream, or for which one is being opened; nil if none
}

// state is the state of one type.
type state struct {
	State
	typ       *resource.Type
	points    int // evidence against it
	*schedule     // nil if it was never quarantined
}

// schedule says when a quarantined type is requested again.
type schedule struct {
	due      time.Time     // time of the next attempt
	pause    time.Duration // pause after the next failed attempt
	failures int           // probe streams that have ended
}

// suspicion is evidence against types.
type suspicion struct {
	against []*state
	Ending
}

// Ending is the end of a stream.
type Ending struct {
	Points int // what it is worth as evidence
	Why    error
	Conn   string // connection of the stream
}

// Request is a type that a stream has requested, and when it did so last.
type Request struct {
	Type  *resource.Type
	Since time.Time
}

// Change is a transition that the caller has to inform operators of, if it has an effect.
type Change struct {
	Type   *resource.Type
	Effect Effect
	Why    error // for [Report]
}

func (t *Types) of(typ *resource.Type) *state {
	s := t.all[typ.URL]
	if s == nil {
		if t.all == nil {
			t.all = make(map[string]*state)
		}
		s = &state{typ: typ}
		t.all[typ.URL] = s
	}
	return s
}

// State returns the state of a type.
func (t *Types) State(typeURL string) State {
	if s := t.all[typeURL]; s != nil {
		return s.State
	}
	return State{}
}

// apply moves along the table and applies the effects on the schedule.
func (t *Types) apply(s *state, e Event, now time.Time) Change {
	known := s.IsHarmless()
	effect := s.step(e)
	if !known && s.IsHarmless() {
		t.harmless++
	}
	switch {
	case s.IsProbed():
		t.probed = s
	case t.probed == s:
		t.probed = nil
	}
	switch {
	case s.Place == Main:
		s.schedule = nil
	case s.schedule == nil:
		s.schedule = &schedule{pause: FirstProbe}
	}
	if s.Place == Waiting && e != Wanted {
		s.due = now
		if effect&Delay != 0 {
			s.due = t.after(now, s.pause)
		}
	}
	if effect&Backoff != 0 {
		s.pause = min(2*s.pause, LastProbe)
	}
	return Change{Type: s.typ, Effect: effect}
}

func (t *Types) after(now time.Time, pause time.Duration) time.Time {
	if t.Jitter != nil {
		pause = t.Jitter(pause)
	}
	return now.Add(pause)
}

// MayRequest reports whether the main stream may request a type that clients want. requested is true
// if the stream has requested it before.
func (t *Types) MayRequest(typ *resource.Type, requested bool, now time.Time) (bool, Change) {
	s := t.all[typ.URL]
	switch {
	case s != nil && s.IsQuarantined():
		return false, t.apply(s, Wanted, now)
	case t.caution == Cautious && t.harmless > 0 && !requested && (s == nil || !s.IsHarmless()):
		return false, t.apply(t.of(typ), Precaution, now)
	}
	return true, Change{}
}

// Answered records that the server has answered a request for a type.
func (t *Types) Answered(typ *resource.Type) { t.apply(t.of(typ), Answered, time.Time{}) }

// StreamEnded records that the main stream has ended, with the types that it had requested.
func (t *Types) StreamEnded(requested []Request, end Ending, now time.Time) []Change {
	var against []*state
	for _, r := range requested {
		s := t.of(r.Type)
		switch {
		case s.IsHarmless():
		case now.Sub(r.Since) >= Window:
			t.apply(s, Outlived, now)
		default:
			against = append(against, s)
		}
	}
	slices.SortFunc(against, byOrder)
	if t.harmless == 0 && len(against) > 0 {
		against = against[1:] // at least one type must stay on the stream
	}
	evidence := &suspicion{against, end}
	if end.Points == Weak {
		t.suspicion = evidence
		return nil
	}
	return t.accuse(evidence, now)
}

// Reconnected records that a new main stream is open, before it requests anything.
func (t *Types) Reconnected(conn string, now time.Time) []Change {
	evidence := t.suspicion
	t.suspicion = nil
	if evidence == nil || evidence.Conn != conn {
		return nil
	}
	return t.accuse(evidence, now)
}

// accuse counts evidence against types and quarantines those with enough of it.
func (t *Types) accuse(evidence *suspicion, now time.Time) (changes []Change) {
	if evidence.Points == 0 {
		return nil
	}
	for _, s := range evidence.against {
		e := Suspected
		if s.points += evidence.Points; s.points >= Proof {
			e = Convicted
		}
		changes = append(changes, t.apply(s, e, now).because(evidence.Why))
	}
	return changes
}

func (c Change) because(why error) Change {
	c.Why = why
	return c
}

// Act is what to do next for the quarantined types.
type Act uint8

const (
	// Nothing: there is no quarantined type that a client wants, or its probe stream is being opened.
	Nothing Act = iota
	// Probe: open a probe stream for the type.
	Probe
	// Release: end the probe stream and request the type on the main stream.
	Release
)

// Decision is an act, with its type and the time when it is due.
type Decision struct {
	Act  Act
	Type *resource.Type
	At   time.Time
}

// View is what the caller knows of the probe stream.
type View struct {
	// Since is when it last requested the type.
	Since time.Time
	// Incomplete says that more frames of the answer may follow. They are received there, since the
	// main stream would not continue the answer: the server may have nothing to add (K13).
	Incomplete bool
}

// Next decides what to do next.
func (t *Types) Next(v View) Decision {
	switch s := t.probed; {
	case s == nil:
		if s = t.nextWaiting(); s == nil {
			return Decision{}
		}
		return Decision{Probe, s.typ, s.due}
	case s.Place == Opening:
		return Decision{}
	case s.IsHarmless() && !v.Incomplete:
		return Decision{Release, s.typ, v.Since}
	default:
		return Decision{Release, s.typ, v.Since.Add(Window)}
	}
}

// nextWaiting returns the type to request next, nil if there is none.
func (t *Types) nextWaiting() (next *state) {
	for _, s := range t.all {
		if s.Place != Waiting {
			continue
		}
		if next == nil || s.due.Before(next.due) || s.due.Equal(next.due) && byOrder(s, next) < 0 {
			next = s
		}
	}
	return next
}

func byOrder(a, b *state) int {
	return cmp.Or(cmp.Compare(a.typ.Order, b.typ.Order), cmp.Compare(a.typ.URL, b.typ.URL))
}

// Postpone delays the probe of a type that waits, since the server cannot be reached.
func (t *Types) Postpone(typ *resource.Type, now time.Time) {
	t.of(typ).due = t.after(now, FirstProbe)
}

// StartProbe records that a probe stream for a type is being opened.
func (t *Types) StartProbe(typ *resource.Type, now time.Time) { t.apply(t.of(typ), ProbeStarted, now) }

// ProbeOpened records that the probe stream is open, and whether it has requested its type: if not,
// no client wants anything of that, and the stream is closed.
func (t *Types) ProbeOpened(requested bool, now time.Time) Change {
	if requested {
		return t.apply(t.probed, ProbeOpened, now)
	}
	return t.apply(t.probed, NothingWanted, now)
}

// ProbeFailed records that the probe stream could not be opened.
func (t *Types) ProbeFailed(now time.Time) { t.apply(t.probed, ProbeFailed, now) }

// ProbeRenewed records that this side has ended the probe stream, to open another one.
func (t *Types) ProbeRenewed(now time.Time) { t.apply(t.probed, ProbeRenewed, now) }

// ProbeEnded records that the server has ended the probe stream.
func (t *Types) ProbeEnded(end Ending, now time.Time) Change {
	s := t.probed
	s.failures++
	if end.Points == 0 && !reported.Has(s.Verdict) && s.failures*Weak < Proof {
		return t.apply(s, ProbeEnded, now)
	}
	t.caution = Cautious
	return t.apply(s, ProbeBlamed, now).because(end.Why)
}

// Release records that the probe stream was ended, and its type may be requested on the main stream.
func (t *Types) Release(now time.Time) Change { return t.apply(t.probed, Released, now) }

// Close records that the server is no longer used.
func (t *Types) Close(now time.Time) (changes []Change) {
	for _, s := range t.all {
		if c := t.apply(s, Closed, now); c.Effect != 0 {
			changes = append(changes, c)
		}
	}
	return changes
}
