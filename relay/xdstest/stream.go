package xdstest

import (
	"context"
	"slices"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// Stream is one scripted discovery stream. It sends only what it is told to.
// [Stream.Send] sends any message; the other senders fill in what a client has
// to remember: the names of each type, its last nonce and last accepted
// version. Sending on a stream that has ended is noted in the transcript and
// has no other effect; the wait that follows tells why the stream ended.
type Stream struct {
	id     string             // fixed
	delta  bool               // fixed
	node   *corev3.Node       // fixed
	log    *Transcript        // fixed
	grpc   grpc.ClientStream  // fixed
	cancel context.CancelFunc // fixed
	frames *inbox[*Frame]     // fixed

	mu     sync.Mutex            // held while sending; guards spoken and types
	spoken bool                  // the first message was sent
	types  map[string]*typeState // by type URL

	readMu   sync.Mutex    // apart from mu, so that a blocked send never stops the receiver
	readable chan struct{} // guarded by readMu; closed while frames are read
}

// typeState is what a SotW client must remember of a type.
type typeState struct {
	names    []string
	nonce    string // of the newest response that was answered
	accepted string // version last acknowledged
}

func (s *Stream) stateLocked(typeURL string) *typeState {
	ts := s.types[typeURL]
	if ts == nil {
		ts = &typeState{}
		s.types[typeURL] = ts
	}
	return ts
}

// Send sends a *DiscoveryRequest or *DeltaDiscoveryRequest as it is, without a
// node unless the message has one.
func (s *Stream) Send(m proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendLocked(m)
}

func (s *Stream) sendLocked(m proto.Message) {
	s.spoken = true
	if err := s.grpc.SendMsg(m); err != nil {
		s.log.add("%s -> could not send %s: %v", s.id, lineOf(m), err)
		return
	}
	s.log.add("%s -> %s", s.id, lineOf(m))
}

// requestLocked sends a request of either variant with the node if it is the
// stream's first. For SotW, names and version come from what is remembered.
func (s *Stream) requestLocked(typeURL, nonce string, nack *statuspb.Status, d *discoveryv3.DeltaDiscoveryRequest) {
	var node *corev3.Node
	if !s.spoken {
		node = s.node
	}
	if s.delta {
		d.Node, d.TypeUrl, d.ResponseNonce, d.ErrorDetail = node, typeURL, nonce, nack
		s.sendLocked(d)
		return
	}
	ts := s.stateLocked(typeURL)
	s.sendLocked(&discoveryv3.DiscoveryRequest{
		Node: node, TypeUrl: typeURL, ResourceNames: slices.Clone(ts.names), VersionInfo: ts.accepted,
		ResponseNonce: nonce, ErrorDetail: nack,
	})
}

// Subscribe adds names of a type. SotW sends the whole list, with the nonce and
// version of the last answered response; delta sends the new names. Without
// names the request has none: as the first of a type it is the legacy wildcard.
func (s *Stream) Subscribe(typeURL string, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ts := s.stateLocked(typeURL)
	ts.add(names)
	nonce := ts.nonce
	if s.delta {
		nonce = "" // C6: a nonce is for answers only
	}
	s.requestLocked(typeURL, nonce, nil, &discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: names})
}

// Unsubscribe drops names of a type; SotW sends the names that are left.
func (s *Stream) Unsubscribe(typeURL string, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ts := s.stateLocked(typeURL)
	ts.names = slices.DeleteFunc(ts.names, func(n string) bool { return slices.Contains(names, n) })
	nonce := ts.nonce
	if s.delta {
		nonce = ""
	}
	s.requestLocked(typeURL, nonce, nil, &discoveryv3.DeltaDiscoveryRequest{ResourceNamesUnsubscribe: names})
}

// Resume is a first subscription by a client that comes back with what it
// holds: SotW quotes version, delta the versions by resource name (B37, B39).
func (s *Stream) Resume(typeURL, version string, versions map[string]string, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ts := s.stateLocked(typeURL)
	ts.add(names)
	ts.accepted = version
	s.requestLocked(typeURL, "", nil, &discoveryv3.DeltaDiscoveryRequest{
		ResourceNamesSubscribe: names, InitialResourceVersions: versions,
	})
}

// Ack accepts a frame. Names given here are subscribed to by the same message
// (B15).
func (s *Stream) Ack(f *Frame, names ...string) { s.answer(f, nil, names) }

// Nack rejects a frame with INVALID_ARGUMENT and a reason; SotW quotes the
// version last accepted (B13). Names given here are subscribed to by the same
// message (B15).
func (s *Stream) Nack(f *Frame, reason string, names ...string) {
	s.answer(f, &statuspb.Status{Code: int32(codes.InvalidArgument), Message: reason}, names)
}

func (s *Stream) answer(f *Frame, nack *statuspb.Status, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ts := s.stateLocked(f.TypeURL)
	ts.add(names)
	ts.nonce = f.Nonce
	if nack == nil {
		ts.accepted = f.Version
	}
	s.requestLocked(f.TypeURL, f.Nonce, nack, &discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: names})
}

func (ts *typeState) add(names []string) {
	for _, n := range names {
		if !slices.Contains(ts.names, n) {
			ts.names = append(ts.names, n)
		}
	}
}

// CloseSend ends the client's half of the stream.
func (s *Stream) CloseSend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.grpc.CloseSend()
	s.log.add("%s -> half-closed", s.id)
}

// Cancel resets the stream, as a client that goes away does.
func (s *Stream) Cancel() {
	s.log.add("%s cancelled", s.id)
	s.cancel()
}
