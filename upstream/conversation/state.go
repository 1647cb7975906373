package conversation

// Variant is a variant of the protocol.
type Variant uint8

const (
	SotW Variant = iota
	Delta
)

// Scope is what a type is subscribed to.
type Scope uint8

const (
	// New: nothing was requested on this stream yet.
	New Scope = iota
	// Implicit: the wildcard, by a request without names (D10).
	Implicit
	// Wildcard: the wildcard by its name, and maybe names.
	Wildcard
	// Ambiguous: the same, after a request without names and before the reply to a response (SotW). The
	// server ignores requests that cross its first response (B8), and then a list without names still
	// means the wildcard.
	Ambiguous
	// Names: names, or nothing any more.
	Names
	// Reduced: the same, after something was unsubscribed (delta). A response that crosses a request
	// for the wildcard may then have a resource that the server removes before it reads the request.
	// The server has forgotten that the relay has the resource, and its answer to the wildcard does
	// not name it, so it would never report the removal. Only a new stream is unambiguous.
	Reduced
)

// Reply is the reply to the newest response.
type Reply uint8

const (
	// None: no response was received.
	None Reply = iota
	// Acked and Nacked: it was sent (C3).
	Acked
	Nacked
	// Reported: an ACK was sent, and then the report that canaries have rejected the response (K2).
	Reported
	// Deferred: it waits until canaries have answered, which makes it an ACK or a NACK. No other request
	// is sent before it (C3).
	Deferred
	// AckOwed and NackOwed: it is to be sent, before any other request.
	AckOwed
	NackOwed
)

// Frames says whether an answer is complete.
type Frames uint8

const (
	// Complete: no frames are to follow.
	Complete Frames = iota
	// Partial: the newest frame is so large that others of the same answer may follow (delta). A part
	// would make the rest look absent, and clients would see an empty state (K13).
	Partial
)

// State is where the conversation about a type is. The zero value is that of a new stream.
type State struct {
	Scope  Scope
	Reply  Reply
	Frames Frames
}

// Event is what happens to a conversation.
type Event uint8

const (
	// AskNothing: clients want nothing by name, and not the wildcard. On delta: nothing more by name.
	AskNothing Event = iota
	// AskNames: clients want names, and not the wildcard.
	AskNames
	// AskImplicit: clients want the wildcard alone, which a request without names may mean.
	AskImplicit
	// AskWildcard: clients want the wildcard, and it is to be named.
	AskWildcard
	// AskWildcardAgain: clients want the wildcard, and it has to be answered once more.
	AskWildcardAgain
	// Unsubscribed: the next request unsubscribes from something by name (delta).
	Unsubscribed
	// LargeFrame: a response of a size was received that makes parts of an answer (delta).
	LargeFrame
	// FramesEnd: no other frame has followed.
	FramesEnd
	// Valid and Invalid: a response was received, and all of its resources can be used, or not.
	Valid
	Invalid
	// Gated: a response was received that is valid, and canaries get what it changes first.
	Gated
	// Passed: the canaries have accepted it, or do not answer in time.
	Passed
	// Failed: canaries have rejected it.
	Failed
	// Replied: the reply that was owed was sent.
	Replied
	events
)

const (
	variants = 2
	scopes   = 6
	replies  = 7
	framings = 2
	states   = scopes * replies * framings
)

// index numbers the states.
func (s State) index() int { return (int(s.Scope)*replies+int(s.Reply))*framings + int(s.Frames) }

// HasWildcard reports whether the wildcard is subscribed.
func (s State) HasWildcard() bool { return s.Scope >= Implicit && s.Scope <= Ambiguous }

// OwesReply reports whether a reply is to be sent before any other request, and what it is is known.
func (s State) OwesReply() bool { return s.Reply >= AckOwed }

var (
	variantNames = [variants]string{"SotW", "Delta"}
	scopeNames   = [scopes]string{"New", "Implicit", "Wildcard", "Ambiguous", "Names", "Reduced"}
	replyNames   = [replies]string{"None", "Acked", "Nacked", "Reported", "Deferred", "AckOwed", "NackOwed"}
	eventNames   = [events]string{
		"AskNothing", "AskNames", "AskImplicit", "AskWildcard", "AskWildcardAgain", "Unsubscribed",
		"LargeFrame", "FramesEnd", "Valid", "Invalid", "Gated", "Passed", "Failed", "Replied",
	}
)

func (v Variant) String() string { return variantNames[v] }
func (s Scope) String() string   { return scopeNames[s] }
func (r Reply) String() string   { return replyNames[r] }
func (e Event) String() string   { return eventNames[e] }

// String names a state; +frames marks a partial answer.
func (s State) String() string {
	text := s.Scope.String() + " " + s.Reply.String()
	if s.Frames == Partial {
		text += " +frames"
	}
	return text
}
