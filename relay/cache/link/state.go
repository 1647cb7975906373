package link

// Target is where the stream leads.
type Target uint8

const (
	// ControlPlane: to the control plane.
	ControlPlane Target = iota
	// OtherNode: to the node that owns the key.
	OtherNode
)

// Phase is how far the stream is.
type Phase uint8

const (
	// Unneeded: there is no stream, since nothing is wanted of it.
	Unneeded Phase = iota
	// Idle: there is no stream, since the key is idle.
	Idle
	// Connecting: the first attempt is under way.
	Connecting
	// Failed: there is no stream, or the owner of the key cannot reach the control plane.
	Failed
	// Untried: there is no stream since before the process last slept, and no attempt has ended since.
	Untried
	// Established: there is a stream, and the control plane can be reached over it.
	Established
)

// Voice is whether the other side has sent something.
type Voice uint8

const (
	// Heard: it has, once the stream is established.
	Heard Voice = iota
	// Mute: the stream counts as established by its silence alone.
	Mute
)

// State is where a stream leads, how far it is, and whether something was heard. The zero value is
// that of a new key.
type State struct {
	Target Target
	Phase  Phase
	Voice  Voice
}

// Event is what happens to a stream.
type Event uint8

const (
	// Started: the stream is needed.
	Started Event = iota
	// Up: it is established.
	Up
	// Down: it has ended, or an attempt has failed, or the owner has lost the control plane.
	Down
	// Borrowed and Returned: the stream to the control plane, or to the owner, has exited, and the
	// next one is to the owner, or to the control plane.
	Borrowed
	Returned
	// Silenced: the stream counts as established by its silence alone. Responded: the other side has sent
	// something.
	Silenced
	Responded
	// Slept: the process has slept.
	Slept
	// Released: nothing is wanted of the stream any more. Idled: the key has become idle.
	Released
	Idled
	events
)

const (
	targets = 2
	phases  = 6
	voices  = 2
	states  = targets * phases * voices
)

// index numbers the states.
func (s State) index() int {
	return (int(s.Target)*phases+int(s.Phase))*voices + int(s.Voice)
}

var (
	targetNames = [targets]string{"ControlPlane", "OtherNode"}
	phaseNames  = [phases]string{"Unneeded", "Idle", "Connecting", "Failed", "Untried", "Established"}
	voiceNames  = [voices]string{"Heard", "Mute"}
	eventNames  = [events]string{"Started", "Up", "Down", "Borrowed", "Returned", "Silenced", "Responded", "Slept", "Released", "Idled"}
)

func (t Target) String() string { return targetNames[t] }
func (p Phase) String() string  { return phaseNames[p] }
func (v Voice) String() string  { return voiceNames[v] }
func (e Event) String() string  { return eventNames[e] }
func (s State) String() string {
	return s.Target.String() + " " + s.Phase.String() + " " + s.Voice.String()
}
