package conversation

// Phase says whether the newest response is answered.
type Phase uint8

const (
	// None: no response was sent.
	None Phase = iota
	// Idle: the newest response was answered.
	Idle
	// Awaiting: the newest response is unanswered, and nothing newer is sent until it is (B9).
	Awaiting
	// Expired: the newest response is unanswered and no longer holds up newer ones: the client took
	// too long (B12), or may have forgotten it (B10). A late answer still counts.
	Expired
)

// Verdict is the effect of the client's NACKs.
type Verdict uint8

const (
	// Clean: nothing that the client was sent is rejected.
	Clean Verdict = iota
	// Tainted: a response was NACKed, and the newest one is unanswered, or parts are to follow it.
	Tainted
	// Held: all responses are answered, and the type waits for news that the client can see (B14).
	// All that the client has not accepted is sent again with it (B16).
	Held
)

// Kind is what the newest response is about. It matters while that is unanswered, and is Content
// otherwise.
type Kind uint8

const (
	// Content: resources and removals.
	Content Kind = iota
	// Repeat: content in one part that has all that the client has rejected, so NACKs of older
	// responses no longer count.
	Repeat
	// Notes: heartbeats and errors of resources, sent while content is held after a NACK.
	Notes
	// Errors: refusals of resource locators alone (G9).
	Errors
)

// State is where the conversation about a type is. The zero value is that of a new stream.
type State struct {
	Phase   Phase
	Verdict Verdict
	Kind    Kind
	// More says that parts are to follow the newest response (B40).
	More bool
}

// Event is what happens to a conversation.
type Event uint8

const (
	// SentContent and SentPart: a response with resources or removals was sent, the last part of its
	// content, or one that others follow.
	SentContent Event = iota
	SentPart
	// SentOnDemand: names that the client waits for were sent ahead of the rest (E7).
	SentOnDemand
	// SentNotes and SentErrors: a response of that kind was sent.
	SentNotes
	SentErrors
	// Skipped and SkippedPart: the cache has nothing for this client on the way to the next position,
	// which is the last of the content, or one that others follow.
	Skipped
	SkippedPart
	// NoNews: the cache has nothing newer than what the client was sent.
	NoNews
	// ACK and NACK answer the newest response.
	ACK
	NACK
	// LateNACK rejects a response older than the newest one.
	LateNACK
	// AckTimeout: the client has taken too long to answer (B12).
	AckTimeout
	// Forgotten: a SotW request without a nonce asks for more, so the client may have forgotten the
	// newest response (B10).
	Forgotten
	// Unsubscribe: the client has dropped something.
	Unsubscribe
	// TableSwitched: the type is now served from another table (K17).
	TableSwitched
	events
)

const (
	phases   = 4
	verdicts = 3
	kinds    = 4
	states   = phases * verdicts * kinds * 2
)

// index numbers the states.
func (s State) index() int {
	i := (int(s.Phase)*verdicts+int(s.Verdict))*kinds + int(s.Kind)
	if s.More {
		return 2*i + 1
	}
	return 2 * i
}

// Unanswered reports whether an answer to the newest response would count.
func (s State) Unanswered() bool { return s.Phase >= Awaiting }

// IsRejected reports whether something is rejected that was not sent again since.
func (s State) IsRejected() bool { return s.Verdict != Clean }

// IsHeld reports whether the type waits for visible news after a NACK.
func (s State) IsHeld() bool { return s.Verdict == Held }

var (
	phaseNames   = [phases]string{"None", "Idle", "Awaiting", "Expired"}
	verdictNames = [verdicts]string{"Clean", "Tainted", "Held"}
	kindNames    = [kinds]string{"Content", "Repeat", "Notes", "Errors"}
	eventNames   = [events]string{
		"SentContent", "SentPart", "SentOnDemand", "SentNotes", "SentErrors", "Skipped", "SkippedPart", "NoNews",
		"ACK", "NACK", "LateNACK", "AckTimeout", "Forgotten", "Unsubscribe", "TableSwitched",
	}
)

func (p Phase) String() string   { return phaseNames[p] }
func (v Verdict) String() string { return verdictNames[v] }
func (k Kind) String() string    { return kindNames[k] }
func (e Event) String() string   { return eventNames[e] }

// String names a state without what is as usual: content of which no part follows.
func (s State) String() string {
	text := s.Phase.String() + " " + s.Verdict.String()
	if s.Kind != Content {
		text += " " + s.Kind.String()
	}
	if s.More {
		text += " +parts"
	}
	return text
}
