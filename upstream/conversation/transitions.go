package conversation

import (
	"slices"

	"xdsrelay/relay/transition"
)

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
	// Report: one more request with the nonce of the response reports the failure.
	Report
)

// row is a row of the table: in the states that match, the event leads to the next state.
type row struct {
	on      Event
	variant transition.Set[Variant]
	scope   transition.Set[Scope]
	reply   transition.Set[Reply]
	frames  transition.Set[Frames]

	to     State // same: unchanged
	effect Effect
}

// Row is the row as package transition has it.
func (r row) Row() transition.Row[Event, Effect] {
	return transition.Row[Event, Effect]{
		On: r.on, In: transition.Parts{uint8(r.scope), uint8(r.reply), uint8(r.frames)},
		To: transition.Parts{uint8(r.to.Scope), uint8(r.to.Reply), uint8(r.to.Frames)}, Output: r.effect,
	}
}

const same = transition.Same

func only[T ~uint8](of ...T) transition.Set[T] { return transition.Only(of...) }

// Sets of the rows, by what they have in common.
var (
	sotw    = only(SotW)
	delta   = only(Delta)
	replied = only(None, Acked, Nacked, Reported) // C3: no request overtakes a reply
	read    = only(Acked, Nacked, Reported)       // the server has read a request with the nonce of a response
	begun   = only(Implicit, Wildcard, Ambiguous, Names, Reduced)
	settled = only(Implicit, Wildcard, Names, Reduced)
	named   = only(Names, Reduced)
)

func scope(s Scope) State { return State{s, same, same} }

// rows are the transitions. All other pairs of a state and an event are illegal.
var rows = []row{
	{on: AskNothing, scope: only(New), reply: replied, to: keep},
	{on: AskNames, scope: only(New), reply: replied, to: scope(Names)},
	{on: AskImplicit, scope: only(New), reply: replied, to: scope(Implicit)},
	{on: AskWildcard, scope: only(New), reply: replied, to: scope(Wildcard), effect: Name},

	// SotW. Where no request of the stream had a name, the empty list still means the wildcard (B20,
	// C7). A server that has nothing new for a wildcard may stay silent. Then the relay cannot see
	// whether it has been answered (K13, B24).
	{on: AskNothing, variant: sotw, scope: only(Implicit), reply: replied, to: keep, effect: Renew},
	{on: AskNames, variant: sotw, scope: only(Implicit), reply: read, to: scope(Names)},
	{on: AskNames, variant: sotw, scope: only(Implicit), reply: only(None), to: keep, effect: Renew},
	{on: AskImplicit, variant: sotw, scope: only(Implicit), reply: replied, to: keep},
	{on: AskWildcard, variant: sotw, scope: only(Implicit), reply: read, to: scope(Wildcard), effect: Name},
	{on: AskWildcard, variant: sotw, scope: only(Implicit), reply: only(None), to: scope(Ambiguous), effect: Name},
	{on: AskWildcard, variant: sotw, scope: only(Wildcard), reply: replied, to: keep, effect: Name},
	{on: AskNothing, variant: sotw, scope: only(Ambiguous), reply: only(None), to: keep, effect: Renew},
	{on: AskNames, variant: sotw, scope: only(Ambiguous), reply: only(None), to: keep, effect: Renew},
	{on: AskImplicit, variant: sotw, scope: only(Ambiguous), reply: only(None), to: keep, effect: Name},
	{on: AskWildcard, variant: sotw, scope: only(Ambiguous), reply: only(None), to: keep, effect: Name},
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
	// A server need not answer for a wildcard that is subscribed already (B35).
	{on: AskWildcardAgain, variant: delta, scope: only(Implicit, Wildcard), reply: replied, to: keep, effect: Renew},
	{on: AskWildcardAgain, variant: delta, scope: only(Names), reply: replied, to: scope(Wildcard), effect: Name},
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
	{on: Gated, scope: begun, reply: replied, to: State{same, Deferred, same}},
	{on: Passed, scope: begun, reply: only(Deferred), to: State{same, AckOwed, same}, effect: Accept},
	{on: Failed, scope: begun, reply: only(Deferred), to: State{same, NackOwed, same}, effect: Reject},
	{on: Failed, scope: begun, reply: only(Acked), to: State{same, Reported, same}, effect: Report},
	{on: Replied, variant: sotw, scope: only(Ambiguous), reply: only(AckOwed), to: State{Wildcard, Acked, same}},
	{on: Replied, variant: sotw, scope: only(Ambiguous), reply: only(NackOwed), to: State{Wildcard, Nacked, same}},
	{on: Replied, scope: settled, reply: only(AckOwed), to: State{same, Acked, same}},
	{on: Replied, scope: settled, reply: only(NackOwed), to: State{same, Nacked, same}},
}

var keep = State{same, same, same}

// transitions is the table of each variant. They are made of the rows and never change.
var transitions = [variants]transition.Table[State, Event, Effect]{SotW: tableOf(SotW), Delta: tableOf(Delta)}

func tableOf(v Variant) transition.Table[State, Event, Effect] {
	return transition.New(transition.Shape[State]{
		Name: "conversation on " + v.String(), Parts: []int{scopes, replies, framings}, Events: int(events),
		Of: func(p transition.Parts) State { return State{Scope(p[0]), Reply(p[1]), Frames(p[2])} },
	}, slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !r.variant.Has(v) }))
}

// step moves the state along the table. It returns what else the transition does.
func (s *State) step(v Variant, e Event) Effect { return transitions[v].Step(s, s.index(), e) }
