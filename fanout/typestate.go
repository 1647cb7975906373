package fanout

import (
	"strconv"
	"time"

	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
)

// typeState is what a stream knows about one type (B2). All fields but the
// watcher are guarded by the stream's mu.
type typeState struct {
	shadow  shadow // in builds with the tag shadow
	watcher cache.Watcher
	table   *cache.Table
	// sent and acked are the positions after the last response that was sent
	// and the last that the client took.
	sent, acked cache.Position
	// tell and refresh are names that the next response has to hold; told and
	// refreshed are those of the responses since acked, which come again if
	// the client rejects them (B16).
	tell, refresh   *cache.Names
	told, refreshed *cache.Names
	// kept is tell, where that is just removals that were held back.
	kept *cache.Names
	// asked are names that the client asked for on demand and that it has not
	// been told about (E7).
	asked *cache.Names

	// nonce and version are those of the newest response, 0 and "" before the
	// first.
	nonce   uint64
	version string
	sentAt  stamp
	bytes   int // of responses that are not acknowledged

	private  bool // the table is the stream's own (K17)
	moved    bool // the table is another one than that of the newest response
	open     bool // the newest response was neither ACKed nor NACKed yet
	inFlight bool // it is waited for, so nothing newer is sent (B9, B12)
	more     bool // another part follows the newest response (B40)
	// repeatsAll says that the newest response repeats all that the client has rejected,
	// in one part: what it says of older responses counts no longer.
	repeatsAll bool
	owed       bool // a wildcard waits for its first answer, even an empty one (B24)
	named      bool // the stream has named resources of this type (B19)
	again      bool // a client that had been told everything is told all of it again
	hopeless   bool // something is asked for that nobody can be asked about (K15)
	dropped    bool // something was dropped while a response was on its way
	stands     standing
	rejection
	// newest is the generation that there was when the newest response was made,
	// and rejectedAt that of the response that was NACKed.
	newest, rejectedAt uint64
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

// rejection is what the NACKs of a client have made of a type.
type rejection uint8

const (
	notRejected rejection = iota
	// rejectionPending: a response was NACKed, and the newest one is not answered, or more
	// parts follow it.
	rejectionPending
	// held: all are answered, and the type waits for news (B14), with which everything
	// comes again that the client has not accepted (B16).
	held
)

func (r rejection) isHeld() bool { return r == held }

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
	return cache.Query{
		Since: ts.sent, Force: ts.tell.With(ts.asked), Refresh: ts.refresh,
		Whole: !f.delta && ts.table.Type.FullState, Limit: limit,
	}
}

// unaccepted is the news q, and all that the client was sent and did not accept: what it
// rejected counts as unknown to it (B16).
func (ts *typeState) unaccepted(q cache.Query) cache.Query {
	q.Since, q.Rejected = ts.acked, true
	q.Force, q.Refresh = q.Force.With(ts.told), q.Refresh.With(ts.refreshed)
	return q
}

// quoted reports whether a request quotes the newest response.
func (ts *typeState) quoted(nonce []byte) bool {
	var digits [maxDigits]byte
	return ts.nonce != 0 && string(nonce) == string(strconv.AppendUint(digits[:0], ts.nonce, 10))
}

// committed notes that a response was sent.
func (ts *typeState) committed(q cache.Query, b *body, nonce uint64, size int, now stamp) {
	ts.shadow.event(ts, func(c *conversation.Conversation) { c.Commit(&q, resultOf(b), nonce, size) })
	defer ts.shadow.check(ts)
	ts.nonce, ts.sentAt, ts.open, ts.inFlight, ts.repeatsAll = nonce, now, true, true, false
	ts.bytes += size
	if ts.located != nil {
		ts.located.aside = false
	}
	if q.NotesOnly { // the rest is held as before
		ts.sent.Noted = b.to.Noted
		return
	}
	if ts.acked == cache.Start {
		// Nothing can have been removed from a client that had nothing.
		ts.acked.Removed = b.to.Removed
	}
	ts.sent, ts.newest = b.to, b.newest
	ts.told, ts.refreshed = ts.told.With(q.Force), ts.refreshed.With(q.Refresh)
	ts.toldNext(q, b)
	ts.version = b.version
	ts.owed, ts.moved = false, false
	if ts.isHeld() { // then everything comes again (B16)
		ts.rejection, ts.repeatsAll = notRejected, !b.more
	}
}

// skipped notes that there was nothing to send on the way to b's position.
func (ts *typeState) skipped(q cache.Query, b *body) {
	ts.shadow.event(ts, func(c *conversation.Conversation) { c.SkipTo(&q, resultOf(b)) })
	defer ts.shadow.check(ts)
	if ts.acked == ts.sent && ts.rejection == notRejected {
		ts.acked = b.to
	}
	ts.sent = b.to
	ts.toldNext(q, b)
	ts.holdRejected()
}

// toldNext notes what is to be told after b.
func (ts *typeState) toldNext(q cache.Query, b *body) {
	if q.Only { // everything else is as it was
		ts.tell = ts.tell.Without(q.Force.List).With(b.withheld)
		ts.asked = b.unknown.With(b.withheld)
		return
	}
	ts.tell, ts.refresh, ts.more, ts.kept = b.withheld, b.unrefreshed, b.more, nil
	if q.KeepRemoved && !b.more {
		ts.kept = b.withheld
	}
	if ts.asked != nil {
		ts.asked = b.unknown
	}
	ts.claim(b.unjudged)
}

// rejectedNow notes that the client rejects what there was at the newest response. A type
// that is held stays so: all of it comes again with news, whatever was rejected meanwhile.
func (ts *typeState) rejectedNow() {
	if !ts.isHeld() {
		ts.rejection, ts.rejectedAt = rejectionPending, ts.newest
	}
}

// holdRejected holds a type with a rejection once the last part is answered. What came up
// since then is news, even if it was among the parts.
func (ts *typeState) holdRejected() {
	if ts.rejection == rejectionPending && !ts.more && !ts.open {
		ts.rejection = held
		ts.sent.Gen = min(ts.sent.Gen, ts.rejectedAt)
	}
}

// accepted notes an ACK of the newest response. It says nothing of an earlier
// part that was rejected.
func (ts *typeState) accepted() (freed int) {
	ts.shadow.event(ts, func(c *conversation.Conversation) { c.ACK() })
	defer ts.shadow.check(ts)
	ts.acks++
	freed = ts.settled()
	if ts.isAside() || ts.rejection != notRejected { // then this was about what it has; see notesLocked
		ts.holdRejected()
		return freed
	}
	ts.acked, ts.told, ts.refreshed = ts.sent, nil, nil
	ts.nack = nil
	ts.stands = noStanding // also a client that is sent something newer at once has come this far
	return freed
}

// rejected notes a NACK of the newest response. The parts that follow it hold
// nothing that the client has rejected, so they are sent all the same. Then
// everything is held (B14), and with news everything comes again (B16).
func (ts *typeState) rejected(why *Reason, now time.Time) (freed int) {
	ts.shadow.event(ts, func(c *conversation.Conversation) { c.NACK() })
	defer ts.shadow.check(ts)
	freed = ts.settled()
	if !ts.isAside() {
		ts.rejectedNow()
	}
	ts.holdRejected()
	ts.nacs++
	ts.nack = NewNack(now, why, ts.version)
	return freed
}

// refusedLate records a NACK for an older response while a newer one is outstanding. It
// does not answer the newer one (B8); that one's ACK will not clear this rejection, unless
// it repeats all that the older response held.
func (ts *typeState) refusedLate(r *resource.Request, why *Reason, now time.Time) {
	if nonce, err := strconv.ParseUint(string(r.Nonce), 10, 64); !r.Rejected || !ts.open || err != nil || nonce >= ts.nonce {
		return
	}
	ts.shadow.event(ts, func(c *conversation.Conversation) { c.LateNACK(0) })
	defer ts.shadow.check(ts)
	if ts.repeatsAll {
		return
	}
	ts.rejectedNow()
	ts.nack = NewNack(now, why, "")
}

func (ts *typeState) settled() (freed int) {
	freed, ts.bytes, ts.open, ts.inFlight, ts.dropped = ts.bytes, 0, false, false, false
	return freed
}

// edited notes what a request changed about the subscription.
func (ts *typeState) edited(ed cache.Edited, wildcardAgain bool) {
	ts.shadow.event(ts, func(c *conversation.Conversation) { c.Edit(&ed, wildcardAgain) })
	defer ts.shadow.check(ts)
	ts.dropped = ts.dropped || ts.open && (len(ed.Removed) > 0 || ed.Left)
	if len(ed.Removed) > 0 {
		for _, n := range []**cache.Names{&ts.tell, &ts.refresh, &ts.told, &ts.refreshed, &ts.asked} {
			*n = (*n).Without(ed.Removed)
		}
		if ts.repeat != nil {
			ts.repeat.names = ts.repeat.names.Without(ed.Removed)
		}
	}
	if ed.Wildcard || wildcardAgain { // B35
		// The whole set is new to the client, and it waits for it (B24).
		ts.owed = true
		switch {
		case ed.Wildcard && !ts.open:
			ts.acked, ts.again = cache.Start, false // it kept nothing that could go
		case ts.acked.Removed <= ts.acked.Gen:
			ts.again = true
		}
		// A response that is on its way is kept as far as the new wildcard
		// covers it, so removals since then count (B33).
		ts.acked.Gen, ts.acked.Noted = 0, 0
		ts.sent = ts.acked
	}
	if ts.sent.Gen > 0 || ts.sent.Noted > 0 { // otherwise everything is told anyway
		ts.tell = ts.tell.With(cache.NewNames(ed.Added)) // B18
	}
}
