package fanout

import (
	"fmt"
	"strconv"
	"time"
)

// State is how a client stands with one type.
type State string

// The states of a client's type, in the words that operators know from
// `istioctl proxy-status`.
const (
	Synced  State = "SYNCED"   // it acknowledged what there is
	Stale   State = "STALE"    // it was not told, or has not acknowledged, the newest
	Nacked  State = "NACKED"   // it rejected the newest
	NotSent State = "NOT_SENT" // there was nothing to tell it yet
	// It came with something from before, which cannot be compared yet.
	Unknown State = "UNKNOWN"
)

// PollVariant is the variant of clients that poll, which have no stream.
const PollVariant = "rest"

// StreamInfo describes one open stream, or a client that polls.
type StreamInfo struct {
	Peer    string    `json:"peer"`
	NodeID  string    `json:"node_id"`
	Cluster string    `json:"cluster"`
	Key     string    `json:"key"`
	Rule    string    `json:"rule"`
	Variant string    `json:"variant"`
	Service string    `json:"service"`
	Since   time.Time `json:"since"`
	Unacked int       `json:"unacked_bytes"`
	Gzip    bool      `json:"gzip"`            // it takes compressed responses
	Relay   string    `json:"relay,omitempty"` // another node of the tier, which it is
	// Polled is when a client that polls asked or was answered last; zero for a stream.
	Polled time.Time `json:"polled,omitzero"`

	Types []TypeInfo `json:"types"`
}

// TypeInfo describes one type of a stream, or of a client that polls.
type TypeInfo struct {
	TypeURL  string    `json:"type_url"`
	State    State     `json:"state"`
	Since    time.Time `json:"since"`             // when that became so
	Private  bool      `json:"private,omitempty"` // over an upstream stream of its own
	Wildcard bool      `json:"wildcard"`
	Names    int       `json:"names"`
	Missing  int       `json:"missing"` // of the names: those without a resource, but for globs
	Sent     uint64    `json:"sent_generation"`
	Acked    uint64    `json:"acked_generation"`
	Head     uint64    `json:"head_generation"`
	Version  string    `json:"version"`
	Nonce    string    `json:"nonce"`
	SentAt   time.Time `json:"sent_at,omitzero"`
	Acks     uint32    `json:"acks"`
	Nacks    uint32    `json:"nacks"`
	LastNack *Nack     `json:"last_nack,omitempty"`
	// Waiting is why the client was not sent, or has not confirmed, what is newest; empty where
	// nothing is missing. After is the type URL that it is ordered after.
	Waiting string `json:"waiting,omitempty"`
	After   string `json:"waiting_after,omitempty"`
	// Has is the version that a client which polls says it has, and Told how often in a
	// row it was told Version and came back without it, since SentAt: it rejects that, or
	// the answers do not arrive. Both are empty for streams.
	Has  string `json:"has_version,omitempty"`
	Told uint32 `json:"told_in_vain,omitempty"`
}

// Streams describes the open streams, in no order.
func (s *Server) Streams() []StreamInfo {
	streams := s.snapshot()
	out := make([]StreamInfo, 0, len(streams))
	for _, st := range streams {
		out = append(out, st.info())
	}
	return out
}

func (s *stream) info() StreamInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := StreamInfo{
		Peer: s.peer, Since: s.srv.timeOf(s.since), Unacked: s.unacked, Types: make([]TypeInfo, 0, len(s.types)),
		Variant: s.variant().Value.AsString(), Service: s.service(),
	}
	if s.group == nil {
		return i // no request yet
	}
	if s.tier != nil {
		i.Relay = s.tier.node
	}
	i.NodeID, i.Cluster, i.Rule, i.Key, i.Gzip = s.nodeID, s.cluster, s.rule, string(s.group.Key), s.wire != nil
	for _, ts := range s.types {
		h, missing := ts.table.Head(&ts.watcher), 0
		if sub := ts.table.Subscription(&ts.watcher); sub != nil {
			missing = sub.Missing()
		}
		stands := ts.standing(h.Gen)
		ts.note(stands, s.srv.stamp(time.Now()))
		waiting, after := s.waitingLocked(ts, &h)
		i.Types = append(i.Types, TypeInfo{
			TypeURL: ts.table.Type.URL, State: states[stands], Since: s.srv.timeOf(ts.since), Private: ts.private, Wildcard: h.Wildcard, Names: h.Names, Missing: missing,
			Sent: ts.Sent.Gen, Acked: ts.Acked.Gen, Head: h.Gen, Version: ts.version, Nonce: nonceOf(ts),
			SentAt: s.srv.timeOf(ts.sentAt), Acks: ts.acks, Nacks: ts.nacs, LastNack: ts.nack,
			Waiting: waiting.String(), After: after,
		})
	}
	return i
}

// nonceOf is the nonce of a type's newest response, as the client knows it.
func nonceOf(ts *typeState) string {
	if ts.Nonce == 0 {
		return ""
	}
	return strconv.FormatUint(ts.Nonce, 10)
}

// Check looks for streams whose state contradicts itself. It returns a
// sentence for each, and nothing if all is well.
func (s *Server) Check() []string {
	var wrong []string
	for _, st := range append(s.snapshot(), s.peersNow()...) {
		wrong = append(wrong, st.check()...)
	}
	return wrong
}

func (s *stream) check() (wrong []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes := 0
	for i, ts := range s.types {
		complain := func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("stream of %s, type %s: ", s.peer, ts.table.Type.URL)+fmt.Sprintf(format, args...))
		}
		bytes += ts.Bytes
		if i > 0 && s.types[i-1].table.Type.Order > ts.table.Type.Order {
			complain("out of the sending order")
		}
		if ts.Acked.Gen > ts.Sent.Gen {
			complain("acknowledged generation %d, but only %d was sent", ts.Acked.Gen, ts.Sent.Gen)
		}
		if h := ts.table.Head(&ts.watcher); h.Subscription != 0 && ts.Sent.Gen > h.Gen && h.Gen > 0 && !ts.table.Reaches(ts.Sent.Gen) {
			complain("sent generation %d, beyond the table's newest", ts.Sent.Gen)
		}
	}
	if bytes != s.unacked {
		wrong = append(wrong, fmt.Sprintf("stream of %s: %d unacknowledged bytes, but its types add up to %d", s.peer, s.unacked, bytes))
	}
	return wrong
}
