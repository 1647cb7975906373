package quarantine

// Place is where a type is requested.
type Place uint8

const (
	// Main: on the main stream of the key.
	Main Place = iota
	// Waiting: nowhere, until the next probe is due.
	Waiting
	// Unwanted: nowhere, since no client wants it.
	Unwanted
	// Opening: nowhere, while the probe stream for it is being opened.
	Opening
	// Probing: on the probe stream.
	Probing
)

// Verdict is what is known about a type.
type Verdict uint8

const (
	// Untried: nothing. The type is on the main stream, or quarantined as a precaution.
	Untried Verdict = iota
	// Accused: streams have ended after requests for it. Operators were informed if it is quarantined.
	Accused
	// Harmless: the server has answered, or the request did not end its stream within [Window].
	Harmless
	// Acquitted: harmless and still quarantined, and operators were informed that it seems to end
	// streams.
	Acquitted
)

// State is where a type is requested and what is known about it. The zero value is that of a new
// type.
type State struct {
	Place   Place
	Verdict Verdict
}

// Event is what happens to a type.
type Event uint8

const (
	// Wanted: a client wants something of the type.
	Wanted Event = iota
	// Suspected and Convicted: the end of a stream counts against the type, and the evidence is not
	// enough to quarantine it, or is.
	Suspected
	Convicted
	// Precaution: the type is new, and another one has ended a probe stream.
	Precaution
	// Outlived: the main stream has ended, and too long after the request to be due to it.
	Outlived
	// Answered: the server has sent a response.
	Answered
	// ProbeStarted: a probe stream for the type is being opened.
	ProbeStarted
	// ProbeFailed: it could not be opened.
	ProbeFailed
	// ProbeOpened: it is open, and the type was requested.
	ProbeOpened
	// NothingWanted: it is open, and no client wants anything of the type.
	NothingWanted
	// ProbeRenewed: this side has ended the probe stream to open another one.
	ProbeRenewed
	// ProbeEnded and ProbeBlamed: the server has ended the probe stream, which says nothing about the
	// type, or counts against it.
	ProbeEnded
	ProbeBlamed
	// Released: the type moves from the probe stream to the main stream.
	Released
	// Closed: the server is no longer used.
	Closed
	events
)

const (
	places   = 5
	verdicts = 4
	states   = places * verdicts
)

// index numbers the states.
func (s State) index() int { return int(s.Place)*verdicts + int(s.Verdict) }

// IsQuarantined reports whether the main stream must not request the type.
func (s State) IsQuarantined() bool { return s.Place != Main }

// IsProbed reports whether the type has a probe stream, or one is being opened.
func (s State) IsProbed() bool { return s.Place >= Opening }

// IsHarmless reports whether the type is known not to end streams.
func (s State) IsHarmless() bool { return s.Verdict >= Harmless }

var (
	placeNames   = [places]string{"Main", "Waiting", "Unwanted", "Opening", "Probing"}
	verdictNames = [verdicts]string{"Untried", "Accused", "Harmless", "Acquitted"}
	eventNames   = [events]string{
		"Wanted", "Suspected", "Convicted", "Precaution", "Outlived", "Answered", "ProbeStarted", "ProbeFailed",
		"ProbeOpened", "NothingWanted", "ProbeRenewed", "ProbeEnded", "ProbeBlamed", "Released", "Closed",
	}
)

func (p Place) String() string   { return placeNames[p] }
func (v Verdict) String() string { return verdictNames[v] }
func (e Event) String() string   { return eventNames[e] }
func (s State) String() string   { return s.Place.String() + " " + s.Verdict.String() }
