package confidence

import (
	"time"

	"xdsrelay/relay/transition"
)

// Silence is how long a new stream may take to answer for a type: a control plane may have nothing
// to send.
const Silence = 5 * time.Second

// Question is what the cache asks about the content of a type on a stream.
type Question uint8

const (
	// Withheld: must clients wait?
	Withheld Question = iota
	// Unconfirmed: may a name exist although the content lacks it, so that no client is sent its
	// removal (K14)?
	Unconfirmed
	// FromLastGood: was some of the content restored?
	FromLastGood
	// Missed: may this node have missed updates that other nodes have received?
	Missed
	// Older: may the content be older than that of another node that asks for it?
	Older
	// Open: does the control plane still have to answer before another node may take this content
	// instead of its own?
	Open
	// Confirms: is the content the control plane's last complete answer, with nothing awaited?
	Confirms
	// Lasts: is the content current for as long as the stream is established?
	Lasts
	// Silent: is the silence of the stream about a name an answer, if it has ever answered for the type?
	Silent
	questions
)

// Answer is the answer to a question.
type Answer uint8

const (
	// No and Yes do not depend on the time.
	No Answer = iota
	Yes
	// UntilSilence: yes until an answer has been awaited for [Silence].
	UntilSilence
	// AfterSilence: yes from then on.
	AfterSilence
)

// rule is a row of the table: the answer to a question in the states that match. All others are No.
type rule struct {
	ask   Question
	basis transition.Set[Basis]
	wait  transition.Set[Wait]
	is    Answer
}

// Row is the rule as package transition has it.
func (r rule) Row() transition.Row[Question, Answer] {
	return transition.Row[Question, Answer]{
		On: r.ask, In: transition.Parts{uint8(r.basis), uint8(r.wait)}, To: transition.Parts{same, same}, Output: r.is,
	}
}

var rules = []rule{
	{ask: Withheld, wait: held, is: Yes},
	{ask: Unconfirmed, basis: only(Assumed, Vacant, Carried, Slept, Idled, Restored), is: Yes},
	{ask: FromLastGood, basis: only(Restored), is: Yes},
	{ask: Missed, basis: missed, is: Yes},

	// For restored and idle content the control plane gets no versions, so it has to answer, however
	// long that takes. A stream that only ended may have nothing to send.
	{ask: Older, basis: only(Idled, Restored), is: Yes},
	{ask: Older, basis: only(Unknown, Confirmed, Assumed, Vacant, Carried, Slept), wait: awaiting, is: UntilSilence},

	// Another node that asks this question has lost its own stream. A type for which no answer ever
	// arrives must not keep it from following this node.
	{ask: Open, wait: held, is: Yes},
	{ask: Open, wait: only(Awaiting), is: UntilSilence},

	{ask: Confirms, basis: only(Confirmed), wait: settled, is: Yes},

	{ask: Lasts, basis: only(Unknown, Confirmed, Assumed, Vacant, Carried, Slept), wait: silent, is: Yes},
	{ask: Lasts, basis: only(Unknown, Confirmed, Assumed, Vacant, Carried, Slept), wait: awaiting, is: AfterSilence},

	// The answers were from elsewhere, and the present connection may have stalled.
	{ask: Silent, basis: only(Unknown, Confirmed, Assumed, Vacant, Slept, Idled), is: Yes},
}

// answers is made of the rules and never changes.
var answers = transition.New(shape("answers", int(questions)), rules)

var (
	questionNames = [questions]string{"Withheld", "Unconfirmed", "FromLastGood", "Missed", "Older", "Open", "Confirms", "Lasts", "Silent"}
	answerNames   = [...]string{"no", "yes", "until silence", "after silence"}
)

func (q Question) String() string { return questionNames[q] }
func (a Answer) String() string   { return answerNames[a] }
