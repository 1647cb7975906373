package ops

import "xdsrelay/fanout"

// State is how a client stands.
type State = fanout.State

// Nack is a client's rejection of a response, without what must not be shown of it.
type Nack = fanout.Nack

// The states, in the words that operators know from `istioctl proxy-status`.
const (
	Synced  = fanout.Synced
	Stale   = fanout.Stale
	Nacked  = fanout.Nacked
	NotSent = fanout.NotSent
	Unknown = fanout.Unknown
)

// MissingResource is no state: a query that names it finds clients that ask for a resource that
// does not exist, in whichever state they are.
const MissingResource State = "MISSING"

// badness orders states: of several types the worst one counts.
var badness = map[State]int{Synced: 1, NotSent: 2, Unknown: 3, Stale: 4, Nacked: 5}

// States are all states, the worst first.
func States() []State { return []State{Nacked, Stale, Unknown, NotSent, Synced} }
