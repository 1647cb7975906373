package fanout

import (
	"strconv"
	"time"

	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
)

// typeState is the state of one type on a stream (B2). The stream's mu guards all fields but the
// watcher.
type typeState struct {
	watcher cache.Watcher
	table   *cache.Table
	conversation.Conversation

	version string // of the newest response; empty before the first
	sentAt  stamp
	private bool // the table belongs to the stream alone (K17)
	// exposure is what the client was sent of the stream's candidate.
	exposure Exposure
	paced    bool // the client agrees to be woken late; see paceLocked
	stands   standing
	// waits is the reason of the wait that the journal has last; see waitChangedLocked.
	waits conversation.Reason
	// since is the time since which the client is in the state that stands has. seen is the newest
	// generation that the client should have. Both are as the last flush has found them.
	since stamp
	seen  uint64

	claims     *claims  // for a client that reconnected
	repeat     *repeat  // for a client that may request names again
	located    *located // for a client that requested variants
	nack       *Nack
	acks, nacs uint32
	metrics    *typeMetrics
}

// Nack is a client's rejection of a response.
type Nack struct {
	At      time.Time `json:"at"`
	Code    int32     `json:"code"`
	Message string    `json:"message"`
	Version string    `json:"version,omitempty"`
}

// Reason is the reason that a client gives for a rejection, without text that must not be shown:
// clients quote what they reject. Making one takes time, so make it before you lock a mutex for
// which others wait.
type Reason struct {
	code    int32
	message string
}

// NewReason returns the reason that error_detail contains.
func NewReason(code int32, message string) *Reason {
	return &Reason{code, redact.Short(message, maxNackMessage)}
}

// maxNackMessage bounds the part of a NACK's message that is kept, in bytes.
const maxNackMessage = 1 << 10

// NewNack returns the record of a rejection.
func NewNack(at time.Time, why *Reason, version string) *Nack {
	return &Nack{At: at, Code: why.code, Message: why.message, Version: version}
}

// news returns the query for the next response.
func (ts *typeState) news(f form) cache.Query {
	q := ts.News()
	q.Scope = ts.scope(f)
	return q
}

// scope returns that of responses with content in a form.
func (ts *typeState) scope(f form) cache.Scope {
	if !f.delta && ts.table.Type.FullState {
		return cache.FullState
	}
	return cache.News
}

// quoted reports whether a request quotes the newest response.
func (ts *typeState) quoted(nonce []byte) bool {
	var digits [maxDigits]byte
	return ts.Nonce != 0 && string(nonce) == string(strconv.AppendUint(digits[:0], ts.Nonce, 10))
}

// result returns the part of b that a conversation keeps.
func (b *body) result() conversation.Result {
	return conversation.Result{To: b.to, Newest: b.newest, More: b.answer.Rest == conversation.PartsLeft, Withheld: b.withheld, Unrefreshed: b.unrefreshed, Unknown: b.unknown}
}

// committed records that a response was sent.
func (ts *typeState) committed(q cache.Query, b *body, nonce uint64, size int, now stamp) {
	ts.sentAt = now
	if b.kind == ofLocators {
		ts.located.errors = nil
		ts.CommitErrors(nonce, size)
		return
	}
	r := b.result()
	ts.Commit(&q, &r, nonce, size)
	if q.Scope == cache.NotesOnly {
		return
	}
	ts.version = b.version
	if !q.Scope.IsOnDemand() {
		ts.claim(b.unjudged)
	}
}

// skipped records that the changes up to b's position need no response.
func (ts *typeState) skipped(q cache.Query, b *body) {
	r := b.result()
	ts.SkipTo(&q, &r)
	ts.claim(b.unjudged)
}

// accepted records an ACK of the newest response.
func (ts *typeState) accepted() (freed int) {
	ts.acks++
	freed, all := ts.ACK()
	if all {
		ts.nack = nil
		ts.stands = noStanding // a client that is sent newer content at once was in sync up to this point, too
	}
	return freed
}

// rejected records a NACK of the newest response.
func (ts *typeState) rejected(why *Reason, now time.Time) (freed int) {
	ts.nacs++
	ts.nack = NewNack(now, why, ts.version)
	return ts.NACK()
}

// rejectedLate records a NACK of an older response. It reports whether that counts.
func (ts *typeState) rejectedLate(r *resource.Request, why *Reason, now time.Time) bool {
	nonce, err := strconv.ParseUint(string(r.Nonce), 10, 64)
	counts := r.Rejected && err == nil && ts.LateNACK(nonce)
	if counts {
		ts.nack = NewNack(now, why, "")
	}
	return counts
}

// edited records how a request changed the subscription.
func (ts *typeState) edited(ed cache.Edited, wildcardAgain bool) {
	if len(ed.Added)+len(ed.Removed) > 0 || ed.Wildcard || ed.Left {
		ts.paced = false // see [cache.Table.Pace]
	}
	if ts.repeat != nil && len(ed.Removed) > 0 {
		ts.repeat.names = ts.repeat.names.Without(ed.Removed)
	}
	ts.Edit(&ed, wildcardAgain)
}
