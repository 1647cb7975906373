package confidence

// Basis is where the content is from.
type Basis uint8

const (
	// Unknown: the control plane has never answered, and nothing was restored.
	Unknown Basis = iota
	// Confirmed: it is the control plane's last complete answer.
	Confirmed
	// Assumed: the control plane has never answered, and names count as absent because of that.
	Assumed
	// Vacant: it is from before the key was idle, when the stream had no resources.
	Vacant
	// Carried: it is from another node or another server.
	Carried
	// Slept: it is from before the process slept.
	Slept
	// Idled: it is from before the key was idle. The process may have slept since.
	Idled
	// Restored: some of it was restored from last known good, or from another node that had it.
	Restored
)

// Wait is what has to happen before clients are served, and whether an answer is awaited.
type Wait uint8

const (
	// Settled: nothing is awaited.
	Settled Wait = iota
	// Awaiting: a new stream has not answered, or the owner of the key has more to send.
	Awaiting
	// Held: clients are not served until an answer arrives, or the hold ends.
	Held
	// HeldAwaiting: both.
	HeldAwaiting
)

// State is what the content of a type on a stream is worth. The zero value is that of a new stream.
type State struct {
	Basis Basis
	Wait  Wait
}

// Event is what happens to the content of a type on a stream.
type Event uint8

const (
	// Answered: the control plane, or the owner of the key, has answered completely.
	Answered Event = iota
	// PartAnswered: the owner has sent a part, and has more to send.
	PartAnswered
	// AskedAgain: a new stream was asked for everything.
	AskedAgain
	// AskedMore: a stream was asked for more than before.
	AskedMore
	// Moved: the stream is to another server from now on, or to the control plane instead of the
	// owner.
	Moved
	// Resumed and ResumedEmpty: the key is in use again after it was idle. The stream has resources,
	// or none and only names that are absent.
	Resumed
	ResumedEmpty
	// Woke: the process has slept.
	Woke
	// CopyRestored: something was restored from last known good, or from another node that had it.
	CopyRestored
	// NamesAssumed: the control plane has been silent for too long, and has never answered what it
	// was asked.
	NamesAssumed
	// HoldBegan: clients have to wait.
	HoldBegan
	// HoldEnded: clients have waited for long enough, which confirms nothing.
	HoldEnded
	// Released: no answer will arrive soon, since the control plane is unreachable.
	Released
	// StayedUp: the stream has been established since before the process slept, and so long after
	// that that everything newer has arrived.
	StayedUp
	events
)

const (
	bases  = 8
	waits  = 4
	states = bases * waits
)

// index numbers the states.
func (s State) index() int { return int(s.Basis)*waits + int(s.Wait) }

var (
	basisNames = [bases]string{"Unknown", "Confirmed", "Assumed", "Vacant", "Carried", "Slept", "Idled", "Restored"}
	waitNames  = [waits]string{"Settled", "Awaiting", "Held", "HeldAwaiting"}
	eventNames = [events]string{
		"Answered", "PartAnswered", "AskedAgain", "AskedMore", "Moved", "Resumed", "ResumedEmpty", "Woke",
		"CopyRestored", "NamesAssumed", "HoldBegan", "HoldEnded", "Released", "StayedUp",
	}
)

func (b Basis) String() string { return basisNames[b] }
func (w Wait) String() string  { return waitNames[w] }
func (e Event) String() string { return eventNames[e] }
func (s State) String() string { return s.Basis.String() + " " + s.Wait.String() }
