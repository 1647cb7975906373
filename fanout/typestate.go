package fanout

import (
	"strconv"
	"time"

	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
)

// typeState is what a stream knows about one type (B2). All fields but the watcher are guarded by
// the stream's mu.
type typeState struct {
	watcher cache.Watcher
	table   *cache.Table
	conversation.Conversation

	version string // of the newest response, "" before the first
	sentAt  stamp
	private bool // the table is the stream's own (K17)
	stands  standing
	// since is when the client came to stand as stands says, and seen the newest
	// generation that it should have, both as the last flush has seen them.
	since stamp
	seen  uint64

	claims     *claims  // of a client that came back
	repeat     *repeat  // of a client that may want names again
	located    *located // of a client that asks for variants
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

// Reason is what a client says about why it rejects a response, without what must not be
// shown of it: clients quote what they reject. To make one takes time, so a lock under which
// others wait is taken later.
type Reason struct {
	code    int32
	message string
}

// NewReason makes a reason of the content of error_detail.
func NewReason(code int32, message string) *Reason {
	return &Reason{code, redact.Short(message, maxNackMessage)}
}

// maxNackMessage bounds what is kept of the message of a NACK, in bytes.
const maxNackMessage = 1 << 10

// NewNack notes a rejection.
func NewNack(at time.Time, why *Reason, version string) *Nack {
	return &Nack{At: at, Code: why.code, Message: why.message, Version: version}
}

// news is what has to be asked for the next response; limit bounds it.
func (ts *typeState) news(f form, limit int) cache.Query {
	q := ts.News()
	q.Whole, q.Limit = !f.delta && ts.table.Type.FullState, limit
	return q
}

// quoted reports whether a request quotes the newest response.
func (ts *typeState) quoted(nonce []byte) bool {
	var digits [maxDigits]byte
	return ts.Nonce != 0 && string(nonce) == string(strconv.AppendUint(digits[:0], ts.Nonce, 10))
}

// result is the part of b that a conversation keeps.
func (b *body) result() conversation.Result {
	return conversation.Result{To: b.to, Newest: b.newest, More: b.more, Withheld: b.withheld, Unrefreshed: b.unrefreshed, Unknown: b.unknown}
}

// committed notes that a response was sent.
func (ts *typeState) committed(q cache.Query, b *body, nonce uint64, size int, now stamp) {
	ts.sentAt = now
	if b.aside {
		ts.located.errors = nil
		ts.CommitErrors(nonce, size)
		return
	}
	r := b.result()
	ts.Commit(&q, &r, nonce, size)
	if q.NotesOnly {
		return
	}
	ts.version = b.version
	if !q.Only {
		ts.claim(b.unjudged)
	}
}

// skipped notes that there was nothing to send on the way to b's position.
func (ts *typeState) skipped(q cache.Query, b *body) {
	r := b.result()
	ts.SkipTo(&q, &r)
	ts.claim(b.unjudged)
}

// accepted notes an ACK of the newest response.
func (ts *typeState) accepted() (freed int) {
	ts.acks++
	freed, all := ts.ACK()
	if all {
		ts.nack = nil
		ts.stands = noStanding // also a client that is sent something newer at once has come this far
	}
	return freed
}

// rejected notes a NACK of the newest response.
func (ts *typeState) rejected(why *Reason, now time.Time) (freed int) {
	ts.nacs++
	ts.nack = NewNack(now, why, ts.version)
	return ts.NACK()
}

// rejectedLate notes a NACK of an older response.
func (ts *typeState) rejectedLate(r *resource.Request, why *Reason, now time.Time) {
	if nonce, err := strconv.ParseUint(string(r.Nonce), 10, 64); r.Rejected && err == nil && ts.LateNACK(nonce) {
		ts.nack = NewNack(now, why, "")
	}
}

// edited notes what a request changed about the subscription.
func (ts *typeState) edited(ed cache.Edited, wildcardAgain bool) {
	if ts.repeat != nil && len(ed.Removed) > 0 {
		ts.repeat.names = ts.repeat.names.Without(ed.Removed)
	}
	ts.Edit(&ed, wildcardAgain)
}
