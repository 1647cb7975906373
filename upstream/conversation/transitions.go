package conversation

// Effect is what a transition does besides changing the state.
type Effect uint8

const (
	// Name: the request names the wildcard.
	Name Effect = 1 << iota
	// Leave: the request unsubscribes from the wildcard by name (delta).
	Leave
	// Renew: the request would leave the two sides with different views. A new stream is opened.
	Renew
	// Accept: the version of the response is accepted.
	Accept
	// Reject: the NACK counts as one more in a row.
	Reject
)

// set is a set of variants, scopes, replies or frames, as bits; 0 means all.
type set uint8

func only[T ~uint8](of ...T) (s set) {
	for _, v := range of {
		s |= 1 << v
	}
	return s
}

func (s set) has(v uint8) bool { return s == 0 || s&(1<<v) != 0 }

// same marks a part of the state that a transition keeps.
const same = 0xff

// transition is a row of the table: in the states that match, the event leads to the next state.
type transition struct {
	on      Event
	variant set
	scope   set
	reply   set
	frames  set

	to     State // same: unchanged
	effect Effect
}

// Sets of the rows, by what they have in common.
var (
	sotw    = only(SotW)
	delta   = only(Delta)
	replied = only(None, Acked, Nacked) // C3: no request overtakes a reply
	begun   = only(Implicit, Wildcard, Names, Reduced)
	named   = only(Names, Reduced)
)

func scope(s Scope) State { return State{s, same, same} }

// rows are the transitions. All other pairs of a state and an event are illegal.
var rows = []transition{
	{on: AskNothing, scope: only(New), reply: replied, to: keep},
	{on: AskNames, scope: only(New), reply: replied, to: scope(Names)},
	{on: AskImplicit, scope: only(New), reply: replied, to: scope(Implicit)},
	{on: AskWildcard, scope: only(New), reply: replied, to: scope(Wildcard), effect: Name},

	// SotW. Where no request of the stream had a name, the empty list still means the wildcard (B20,
	// C7). A server that has nothing new for a wildcard may stay silent. Then the relay cannot see
	// whether it has been answered (K13, B24).
	{on: AskNothing, variant: sotw, scope: only(Implicit), reply: replied, to: keep, effect: Renew},
	{on: AskNames, variant: sotw, scope: only(Implicit), reply: replied, to: scope(Names)},
	{on: AskImplicit, variant: sotw, scope: only(Implicit), reply: replied, to: keep},
	{on: AskWildcard, variant: sotw, scope: only(Implicit, Wildcard), reply: replied, to: scope(Wildcard), effect: Name},
	{on: AskWildcardAgain, variant: sotw, scope: begun, reply: replied, to: keep, effect: Renew},
	{on: AskNothing, variant: sotw, scope: only(Wildcard, Names), reply: replied, to: scope(Names)},
	{on: AskNames, variant: sotw, scope: only(Wildcard, Names), reply: replied, to: scope(Names)},
	{on: AskImplicit, variant: sotw, scope: only(Wildcard), reply: replied, to: keep, effect: Name},
	{on: AskImplicit, variant: sotw, scope: only(Names), reply: replied, to: keep, effect: Renew},
	{on: AskWildcard, variant: sotw, scope: only(Names), reply: replied, to: keep, effect: Renew},

	// Delta. Not all servers keep an implicit wildcard when names are added, so it is named then
	// (D10). Not all accept an unsubscription from a wildcard that was never named, so one message
	// subscribes and unsubscribes it (B23).
	{on: AskNothing, variant: delta, scope: only(Implicit), reply: replied, to: scope(Reduced), effect: Name | Leave},
	{on: AskNames, variant: delta, scope: only(Implicit), reply: replied, to: scope(Reduced), effect: Name | Leave},
	{on: AskImplicit, variant: delta, scope: only(Implicit), reply: replied, to: keep},
	{on: AskWildcard, variant: delta, scope: only(Implicit), reply: replied, to: scope(Wildcard), effect: Name},
	{on: AskWildcardAgain, variant: delta, scope: only(Implicit, Wildcard, Names), reply: replied, to: scope(Wildcard), effect: Name},
	{on: AskNothing, variant: delta, scope: only(Wildcard), reply: replied, to: scope(Reduced), effect: Leave},
	{on: AskNames, variant: delta, scope: only(Wildcard), reply: replied, to: scope(Reduced), effect: Leave},
	{on: AskImplicit, variant: delta, scope: only(Wildcard), reply: replied, to: keep},
	{on: AskWildcard, variant: delta, scope: only(Wildcard), reply: replied, to: keep},
	{on: AskNothing, variant: delta, scope: named, reply: replied, to: keep},
	{on: AskNames, variant: delta, scope: named, reply: replied, to: keep},
	{on: AskImplicit, variant: delta, scope: only(Names), reply: replied, to: scope(Wildcard), effect: Name},
	{on: AskWildcard, variant: delta, scope: only(Names), reply: replied, to: scope(Wildcard), effect: Name},
	{on: AskImplicit, variant: delta, scope: only(Reduced), reply: replied, to: keep, effect: Renew},
	{on: AskWildcard, variant: delta, scope: only(Reduced), reply: replied, to: keep, effect: Renew},
	{on: AskWildcardAgain, variant: delta, scope: only(Reduced), reply: replied, to: keep, effect: Renew},
	{on: Unsubscribed, variant: delta, scope: only(New, Names, Reduced), reply: replied, to: scope(Reduced)},
	{on: Unsubscribed, variant: delta, scope: only(Implicit, Wildcard), reply: replied, to: keep},

	// Responses. A reply that is owed is sent before the next response is taken.
	{on: LargeFrame, variant: delta, scope: begun, reply: replied, to: State{same, same, Partial}},
	{on: FramesEnd, variant: delta, scope: begun, frames: only(Partial), to: State{same, same, Complete}},
	{on: Valid, scope: begun, reply: replied, to: State{same, AckOwed, same}, effect: Accept},
	{on: Invalid, scope: begun, reply: replied, to: State{same, NackOwed, same}, effect: Reject},
	{on: Replied, scope: begun, reply: only(AckOwed), to: State{same, Acked, same}},
	{on: Replied, scope: begun, reply: only(NackOwed), to: State{same, Nacked, same}},
}

var keep = State{same, same, same}

// cell is one of the table: the transition of one event in one state.
type cell struct {
	to     State
	effect Effect
	legal  bool
}

// table has a cell for each event in each state of a variant.
type table [variants][events][states]cell

// transitions is made of the rows and never changes.
var transitions = tableOf(rows)

func tableOf(rows []transition) *table {
	var t table
	for v := range Variant(variants) {
		for s := range allStates {
			for _, r := range rows {
				if r.matches(v, s) {
					t[v][r.on][s.index()] = cell{r.next(s), r.effect, true}
				}
			}
			for e := range events {
				if c := &t[v][e][s.index()]; !c.legal {
					c.to = s
				}
			}
		}
	}
	return &t
}

// allStates goes through all states, including those that no event leads to.
func allStates(yield func(State) bool) {
	for i := range states {
		if !yield(State{Scope(i / framings / replies), Reply(i / framings % replies), Frames(i % framings)}) {
			return
		}
	}
}

func (r *transition) matches(v Variant, s State) bool {
	return r.variant.has(uint8(v)) && r.scope.has(uint8(s.Scope)) && r.reply.has(uint8(s.Reply)) && r.frames.has(uint8(s.Frames))
}

func (r *transition) next(s State) State {
	if r.to.Scope != same {
		s.Scope = r.to.Scope
	}
	if r.to.Reply != same {
		s.Reply = r.to.Reply
	}
	if r.to.Frames != same {
		s.Frames = r.to.Frames
	}
	return s
}

// step moves the state along the table. It returns what else the transition does.
func (s *State) step(v Variant, e Event) Effect {
	c := &transitions[v][e][s.index()]
	if checked && !c.legal {
		panic("conversation: " + e.String() + " while " + s.String() + ", " + v.String())
	}
	*s = c.to
	return c.effect
}
