package link

import "xdsrelay/relay/transition"

// Effect is what a transition does besides changing the state.
type Effect uint8

const (
	// Lose: the content is no longer confirmed from now on.
	Lose Effect = 1 << iota
	// Resume: the content is confirmed again. After a brief interruption it counts as confirmed all
	// the time.
	Resume
	// Restart: the time in the phase begins.
	Restart
	// News: the caller signals that what the stream lacks may have changed.
	News
	// Back: the control plane is reachable again, which other nodes wait for.
	Back
)

// row is a row of the table: in the states that match, the event leads to the next state.
type row struct {
	on     Event
	target transition.Set[Target]
	phase  transition.Set[Phase]
	voice  transition.Set[Voice]

	to     State // same: unchanged
	effect Effect
}

// Row is the row as package transition has it.
func (r row) Row() transition.Row[Event, Effect] {
	return transition.Row[Event, Effect]{
		On: r.on, In: transition.Parts{uint8(r.target), uint8(r.phase), uint8(r.voice)},
		To: transition.Parts{uint8(r.to.Target), uint8(r.to.Phase), uint8(r.to.Voice)}, Output: r.effect,
	}
}

const same = transition.Same

func only[T ~uint8](of ...T) transition.Set[T] { return transition.Only(of...) }

// Sets of the rows, by what they have in common.
var (
	off         = only(Unneeded, Idle)
	failed      = only(Failed, Untried)
	apart       = only(Connecting, Failed, Untried)
	established = only(Established)
	down        = only(Idle, Failed, Untried) // there is a reason why there is no stream
	cut         = only(Idle, Failed)          // it is from after the process last slept
	asleep      = only(Unneeded, Idle, Connecting, Untried)
	absent      = only(Unneeded, Idle, Connecting, Failed, Untried)

	heard = only(Heard)
	mute  = only(Mute)
)

// rows are the transitions. All other pairs of a state and an event are illegal. A mute stream that
// ends has confirmed nothing before, either (K12).
var rows = []row{
	{on: Started, phase: off, to: into(Connecting), effect: Restart},

	{on: Up, phase: only(Connecting), to: into(Established), effect: Resume | Restart | News},
	{on: Up, phase: failed, to: into(Established), effect: Resume | Restart | News | Back},
	{on: Up, phase: established, to: keep},

	{on: Down, phase: only(Connecting), to: into(Failed), effect: News},
	{on: Down, phase: failed, to: into(Failed)},
	{on: Down, phase: established, voice: heard, to: into(Failed), effect: Lose | Restart | News},
	{on: Down, phase: established, voice: mute, to: into(Failed), effect: Restart | News},

	{on: Borrowed, phase: absent, to: toward(OtherNode)},
	{on: Borrowed, phase: established, voice: heard, to: State{OtherNode, Connecting, same}, effect: Lose | Restart},
	{on: Borrowed, phase: established, voice: mute, to: State{OtherNode, Connecting, same}, effect: Restart},
	{on: Returned, phase: absent, to: toward(ControlPlane)},
	{on: Returned, phase: established, voice: heard, to: State{ControlPlane, Connecting, same}, effect: Lose | Restart},
	{on: Returned, phase: established, voice: mute, to: State{ControlPlane, Connecting, same}, effect: Restart},

	{on: Silenced, to: State{same, same, Mute}},
	{on: Responded, to: State{same, same, Heard}},

	{on: Slept, phase: asleep, to: keep},
	{on: Slept, phase: only(Failed), to: into(Untried)},
	{on: Slept, phase: established, voice: heard, to: keep, effect: Lose},
	{on: Slept, phase: established, voice: mute, to: keep},

	{on: Released, phase: apart, to: into(Unneeded)},
	{on: Released, phase: established, voice: heard, to: into(Unneeded), effect: Lose},
	{on: Released, phase: established, voice: mute, to: into(Unneeded)},
	{on: Idled, phase: apart, to: into(Idle), effect: Restart},
	{on: Idled, phase: established, voice: heard, to: into(Idle), effect: Lose | Restart},
	{on: Idled, phase: established, voice: mute, to: into(Idle), effect: Restart},
}

var keep = State{same, same, same}

func into(p Phase) State    { return State{same, p, same} }
func toward(t Target) State { return State{t, same, same} }

// transitions is made of the rows and never changes.
var transitions = transition.New(transition.Shape[State]{
	Name: "link", Parts: []int{targets, phases, voices}, Events: int(events),
	Of: func(p transition.Parts) State { return State{Target(p[0]), Phase(p[1]), Voice(p[2])} },
}, rows)

// step moves the state along the table. It returns what else the transition does.
func (s *State) step(e Event) Effect { return transitions.Step(s, s.index(), e) }
