package fanout

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/conversation"
	"xdsrelay/fanout/journal"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
)

// The events of a client are in the journal of its stream, which the stream's mu guards like all
// else that a delivery changes. When the stream ends, the server keeps the journal for a time, and
// the client gets it back with its next stream.

// The variant of a stream as a journal has it.
const (
	streamDelta byte = 1 << iota
	streamV2
	streamSingle // a service of one type
)

// ending is why a stream ends, in the words of the journal. It is the gRPC status that it has.
type ending struct {
	error
	why journal.End
}

// GRPCStatus implements the interface that gRPC looks for.
func (e *ending) GRPCStatus() *status.Status { return status.Convert(e.error) }

// Unwrap returns the status.
func (e *ending) Unwrap() error { return e.error }

// maxEndText bounds the text about the end of a stream, in bytes.
const maxEndText = 120

// endingOf returns why a stream ends with err, and the text for that.
func endingOf(err error) (why journal.End, text string) {
	e, ok := errors.AsType[*ending](err)
	switch {
	case err == nil, status.Code(err) == codes.Canceled:
		return journal.Closed, ""
	case errors.Is(err, errDraining):
		return journal.Drained, ""
	case ok:
		why = e.why
	default:
		why = journal.Failed
	}
	return why, redact.Short(status.Convert(err).Message(), maxEndText)
}

// who identifies a stream's client for the events.
func (s *stream) who(key aggregation.Key) journal.Identity {
	return journal.Identity{Owner: s.reservation.Owner(), ID: s.nodeID, Key: string(key)}
}

// eventsOf returns the journal of a client that is back.
func (s *Server) eventsOf(st *stream, key aggregation.Key) (j journal.Journal) {
	if s.cfg.EventBytes == 0 {
		return j
	}
	return s.left.Take(st.who(key), time.Now())
}

// keepEvents keeps the journal of a stream that has ended.
func (s *stream) keepEvents(j journal.Journal) {
	if !j.Empty() && s.group != nil {
		s.srv.left.Add(s.who(s.group.Key), j, time.Now())
	}
}

// departLocked ends the journal of a stream that has ended.
func (s *stream) departLocked() (j journal.Journal) {
	j, s.journal = s.journal, j
	j.EndWaits(time.Now())
	return j
}

func (s *stream) recordsEvents() bool { return s.srv.cfg.EventBytes > 0 && s.tier == nil }

func (s *stream) connectedLocked(now time.Time) {
	if !s.recordsEvents() {
		return
	}
	var variant byte
	if s.delta {
		variant |= streamDelta
	}
	if s.v2 {
		variant |= streamV2
	}
	if s.only != nil {
		variant |= streamSingle
	}
	s.journal.Connect(now, variant, s.srv.cfg.EventBytes)
}

func (s *stream) disconnectedLocked(why journal.End, text string) {
	if s.recordsEvents() && s.group != nil {
		s.journal.Disconnect(time.Now(), why, s.peer, text, s.srv.cfg.EventBytes)
	}
}

func (s *stream) sentEventLocked(ts *typeState, b *body, now time.Time) {
	if s.recordsEvents() {
		s.journal.Send(now, ts.table.Type, b.sentVersion, b.resources, s.srv.cfg.EventBytes)
	}
}

// rejectedEventLocked records a NACK, which ts.nack has.
func (s *stream) rejectedEventLocked(ts *typeState, now time.Time, late bool) {
	if !s.recordsEvents() {
		return
	}
	if !late {
		s.journal.Answer(now, ts.table.Type, journal.Refused)
	}
	s.journal.Reject(now, ts.table.Type, ts.nack.Code, ts.nack.Message, s.srv.cfg.EventBytes)
}

// rejectedLateLocked records a NACK of an older response.
func (s *stream) rejectedLateLocked(ts *typeState, r *resource.Request) {
	if now := time.Now(); ts.rejectedLate(r, s.why, now) {
		s.rejectedEventLocked(ts, now, true)
		s.answeredLocked(ts, Rejected, now)
	}
}

// waitsChangedLocked records for what each type waits now. It costs a comparison for each type
// unless a reason has changed.
func (s *stream) waitsChangedLocked() {
	for _, ts := range s.types {
		switch ts.Wait {
		case conversation.NotSubscribed, conversation.AwaitingAck, conversation.HeldAfterNack:
			// The time of the answer and the reason of the NACK are in the journal.
			s.waitChangedLocked(ts, conversation.NothingNew, time.Time{})
		default:
			s.waitChangedLocked(ts, ts.Wait, time.Time{})
		}
	}
}

// waitChangedLocked records that a type waits for a reason. now is zero for the current time.
func (s *stream) waitChangedLocked(ts *typeState, why conversation.Reason, now time.Time) {
	if ts.waits == why || !s.recordsEvents() {
		return
	}
	ts.waits = why
	if now.IsZero() {
		now = time.Now()
	}
	s.journal.Wait(now, ts.table.Type, byte(why), s.srv.cfg.EventBytes)
}

// Event is an event of a client.
type Event struct {
	journal.Event

	Variant string // of a stream that began: sotw or delta
	Reason  string // of a wait
}

// ClientEvents are the events of one stream of a client, or of the streams that have ended.
type ClientEvents struct {
	Key  string
	Peer string // of an open stream
	// Open reports whether the stream is open; Left is when the last one ended otherwise.
	Open   bool
	Left   time.Time
	Events []Event // the oldest first
}

// maxEventStreams bounds the streams with one node id whose events are returned.
const maxEventStreams = 100

// Events returns the events of clients with a node id, of open streams first. more reports whether
// there are further streams.
func (s *Server) Events(id string) (all []ClientEvents, more bool) {
	for _, st := range s.snapshot() {
		st.mu.Lock()
		is := st.group != nil && st.nodeID == id
		var records []byte
		var key string
		if is {
			key, records = string(st.group.Key), slices.Clone(st.journal.Bytes()) // decoded without the lock
		}
		st.mu.Unlock()
		if is && len(all) == maxEventStreams {
			more = true
			break
		}
		if is {
			all = append(all, ClientEvents{Key: key, Peer: st.peer, Open: true, Events: eventsIn(journal.Decode(records))})
		}
	}
	slices.SortFunc(all, func(a, b ClientEvents) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Peer, b.Peer)) })
	for _, l := range s.left.Find(id, time.Now()) {
		all = append(all, ClientEvents{Key: l.Key, Left: l.At, Events: eventsIn(l.Events)})
	}
	if len(all) > maxEventStreams {
		all, more = all[:maxEventStreams], true
	}
	return all, more
}

func eventsIn(records []journal.Event) (all []Event) {
	for _, r := range records {
		e := Event{Event: r}
		switch r.Kind {
		case journal.Connected:
			e.Variant = variantName(r.Variant)
		case journal.Waited:
			e.Reason = conversation.Reason(r.Reason).String()
		}
		all = append(all, e)
	}
	return all
}

func variantName(v byte) string {
	name := "sotw"
	if v&streamDelta != 0 {
		name = "delta"
	}
	if v&streamV2 != 0 {
		name += ", xDS v2"
	}
	if v&streamSingle != 0 {
		name += ", one type"
	}
	return name
}
