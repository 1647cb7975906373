package rollout

// Phase is how far the newest revision of a key is.
type Phase uint8

const (
	// Idle: all clients have what the control plane sent.
	Idle Phase = iota
	// Settling: changes are pending, and the next revision is not cut yet.
	Settling
	// Scouting: the revision goes to one client for each software version.
	Scouting
	// Stepping: it goes to a share of the clients; the last step is all of them.
	Stepping
	// Proving: all clients have it, and the final bake is not over.
	Proving
	// Held: a revision was refused, and nothing new is released.
	Held
)

// Need is what the phase needs next.
type Need uint8

const (
	// Nothing: the phase lasts until something happens.
	Nothing Need = iota
	// Quiet: the control plane has to be quiet before a revision is cut. While one is on its way, a
	// newer one is about to supersede it, so it is not widened.
	Quiet
	// Approval: an operator has to approve the step, unless the policy approves it.
	Approval
	// Tokens: the budget has to grant the clients of the step.
	Tokens
	// Write: the canaries have to be chosen, and the step has to be written to the record.
	Write
	// Bake: the bake has to end with a verdict that passes.
	Bake
)

// Brake is whether anything forbids to widen.
type Brake uint8

const (
	// Open: nothing does.
	Open Brake = iota
	// Braked: at least one of [Brakes] does.
	Braked
)

// State is the phase of a key, what it needs next, and whether it is braked. The zero value is that
// of a new key.
type State struct {
	Phase Phase
	Need  Need
	Brake Brake
}

// Event is what happens to a key.
type Event uint8

const (
	// Changed: gated content of the control plane has changed, or is to be tried again.
	Changed Event = iota
	// Withdrawn: the control plane is back at the stable content.
	Withdrawn
	// Cut: a revision was cut that is neither the one on its way nor refused.
	Cut
	// CutSame: the revision that was cut is the one on its way.
	CutSame
	// CutRefused: the revision that was cut is refused.
	CutRefused
	// Approved: an operator, or the policy, approves the step.
	Approved
	// Granted: the budget has granted its tokens.
	Granted
	// Chosen: its canaries are chosen and written to the record.
	Chosen
	// Promoted: the record has the step to all clients.
	Promoted
	// Passed: the bake is over, and the verdict passes.
	Passed
	// Outgrown: the bake is over, and far more clients are affected than when the canaries were chosen.
	Outgrown
	// Failed: a verdict fails.
	Failed
	// Aborted: an operator ends the rollout.
	Aborted
	// Skipped: an operator promotes without checks.
	Skipped
	// Undone: an operator returns all clients to the revision before.
	Undone
	// Stopped: the first brake is set. Released: the last one is gone.
	Stopped
	Released
	events
)

const (
	phases = 6
	needs  = 6
	brakes = 2
	states = phases * needs * brakes
)

// index numbers the states.
func (s State) index() int { return (int(s.Phase)*needs+int(s.Need))*brakes + int(s.Brake) }

// IsUnderWay reports whether a revision is on its way: some clients may have it, and not all of them.
func (s State) IsUnderWay() bool { return s.Phase == Scouting || s.Phase == Stepping }

// IsJudged reports whether clients may have a revision that is neither good nor refused.
func (s State) IsJudged() bool { return s.IsUnderWay() || s.Phase == Proving }

var (
	phaseNames = [phases]string{"Idle", "Settling", "Scouting", "Stepping", "Proving", "Held"}
	needNames  = [needs]string{"", "Quiet", "Approval", "Tokens", "Write", "Bake"}
	brakeNames = [brakes]string{"", "Braked"}
	eventNames = [events]string{
		"Changed", "Withdrawn", "Cut", "CutSame", "CutRefused", "Approved", "Granted", "Chosen",
		"Promoted", "Passed", "Outgrown", "Failed", "Aborted", "Skipped", "Undone", "Stopped", "Released",
	}
)

func (p Phase) String() string { return phaseNames[p] }
func (n Need) String() string  { return needNames[n] }
func (b Brake) String() string { return brakeNames[b] }
func (e Event) String() string { return eventNames[e] }

func (s State) String() string {
	text := s.Phase.String()
	if s.Need != Nothing {
		text += " " + s.Need.String()
	}
	if s.Brake != Open {
		text += " " + s.Brake.String()
	}
	return text
}
