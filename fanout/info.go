package fanout

import (
	"fmt"
	"strconv"
	"time"
)

// State is the state of a client for one type.
type State string

// The states, with the names of `istioctl proxy-status`.
const (
	Synced  State = "SYNCED"   // it acknowledged all content
	Stale   State = "STALE"    // it was not sent, or has not acknowledged, the newest content
	Nacked  State = "NACKED"   // it rejected the newest content
	NotSent State = "NOT_SENT" // there was no content to send yet
	// It has content from before, which cannot be compared yet.
	Unknown State = "UNKNOWN"
)

// PollVariant is the variant of polling clients, which have no stream.
const PollVariant = "rest"

// StreamInfo describes an open stream or a polling client.
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
	Gzip    bool      `json:"gzip"`            // it accepts compressed responses
	Relay   string    `json:"relay,omitempty"` // the name, if it is another node of the tier
	// Former is set if its key is from former rules.
	Former Former `json:"former_rules,omitempty"`
	// Rollout is the part that it has in a rollout; nil if it has none.
	Rollout *ClientRollout `json:"rollout,omitempty"`
	// Polled is when a polling client last sent a poll or got an answer; zero for a stream.
	Polled time.Time `json:"polled,omitzero"`

	Types []TypeInfo `json:"types"`
}

// ClientRollout is the part of a client in a rollout.
type ClientRollout struct {
	Revision string `json:"revision"`
	// Arm is canary or control.
	Arm string `json:"arm"`
}

// TypeInfo describes one type of a stream or of a polling client.
type TypeInfo struct {
	TypeURL  string    `json:"type_url"`
	State    State     `json:"state"`
	Since    time.Time `json:"since"`             // of State
	Private  bool      `json:"private,omitempty"` // over its own upstream stream
	Wildcard bool      `json:"wildcard"`
	Names    int       `json:"names"`
	Missing  int       `json:"missing"` // names without a resource, other than globs
	Sent     uint64    `json:"sent_generation"`
	Acked    uint64    `json:"acked_generation"`
	Head     uint64    `json:"head_generation"`
	Version  string    `json:"version"`
	// ControlPlaneVersion is the control plane's own version of what the client has acknowledged; empty
	// if the control plane has none, or it is no longer remembered.
	ControlPlaneVersion string `json:"control_plane_version,omitempty"`

	Nonce    string    `json:"nonce"`
	SentAt   time.Time `json:"sent_at,omitzero"`
	Acks     uint32    `json:"acks"`
	Nacks    uint32    `json:"nacks"`
	LastNack *Nack     `json:"last_nack,omitempty"`
	// Waiting is the reason why the client was not sent the newest content, or has not acknowledged
	// it; empty if it has. After is the type URL that has to be sent first, if that is the reason.
	Waiting string `json:"waiting,omitempty"`
	After   string `json:"waiting_after,omitempty"`
	// Has is the version that a polling client says it has. UnackedRepeats is how many times in a
	// row, since SentAt, it was sent Version and did not quote it in the next poll: it rejects the
	// version, or does not get the answers. Both are empty for streams.
	Has            string `json:"has_version,omitempty"`
	UnackedRepeats uint32 `json:"unacked_resends,omitempty"`
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
	} else {
		i.Former, i.Rollout = s.former(), s.rolloutLocked()
	}
	i.NodeID, i.Cluster, i.Rule, i.Key, i.Gzip = s.nodeID, s.cluster, s.rule, string(s.group.Key), s.gzip
	for _, ts := range s.types {
		h, missing := ts.table.State(&ts.watcher), 0
		if sub := ts.table.Subscription(&ts.watcher); sub != nil {
			missing = sub.Missing()
		}
		stands := ts.standing(h.Gen)
		ts.note(stands, s.srv.stamp(time.Now()))
		waiting, after := s.waitingLocked(ts, &h)
		i.Types = append(i.Types, TypeInfo{
			TypeURL: ts.table.Type.URL, State: states[stands], Since: s.srv.timeOf(ts.since), Private: ts.private, Wildcard: h.HasWildcard(), Names: h.Names, Missing: missing,
			Sent: ts.Sent.Gen, Acked: ts.Acked.Gen, Head: h.Gen, Version: ts.version, ControlPlaneVersion: ts.controlPlaneVersion(stands), Nonce: nonceOf(ts),
			SentAt: s.srv.timeOf(ts.sentAt), Acks: ts.acks, Nacks: ts.nacs, LastNack: ts.nack,
			Waiting: waiting.String(), After: after,
		})
	}
	return i
}

// controlPlaneVersion is the control plane's own version of what a client in a state has. One that is in
// sync has the newest, although later updates may have had nothing for it.
func (ts *typeState) controlPlaneVersion(stands standing) string {
	if stands == standsSynced {
		return ts.table.NewestVersion()
	}
	return ts.table.VersionAt(ts.Acked.Gen)
}

// nonceOf returns the nonce of a type's newest response, as the client sees it.
func nonceOf(ts *typeState) string {
	if ts.Nonce == 0 {
		return ""
	}
	return strconv.FormatUint(ts.Nonce, 10)
}

// Check looks for streams with a contradictory state. It returns a sentence for each contradiction.
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
		if h := ts.table.State(&ts.watcher); h.Subscription != 0 && ts.Sent.Gen > h.Gen && h.Gen > 0 && !ts.table.Reaches(ts.Sent.Gen) {
			complain("sent generation %d, newer than any of the table", ts.Sent.Gen)
		}
	}
	if bytes != s.unacked {
		wrong = append(wrong, fmt.Sprintf("stream of %s: %d unacknowledged bytes, but its types add up to %d", s.peer, s.unacked, bytes))
	}
	return wrong
}
