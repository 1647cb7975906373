package xdstest

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// OriginStream is one stream that a client opened to an [Origin].
type OriginStream struct {
	// Variant is how the client called.
	Variant Variant // fixed

	number   int               // fixed
	notify   func(Event)       // fixed
	id       string            // fixed
	log      *Transcript       // fixed
	grpc     grpc.ServerStream // fixed
	requests *inbox[*Request]  // fixed; those that the test has not taken yet
	closing  chan struct{}     // closed by Close

	mu      sync.Mutex // guards all below
	all     []*Request // in the order of arrival
	node    *corev3.Node
	nonces  int
	end     error // what the handler is to return, once closing is closed
	closed  bool  // Close was called
	retired bool  // the handler is about to return: nothing may be sent
}

// receive records requests until the client ends its half.
func (st *OriginStream) receive() error {
	for {
		var m proto.Message = &discoveryv3.DiscoveryRequest{}
		if st.Variant.Delta {
			m = &discoveryv3.DeltaDiscoveryRequest{}
		}
		if err := st.grpc.RecvMsg(m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		r := readRequest(m)
		st.log.add("%s <- %s", st.id, r)
		st.mu.Lock()
		st.all = append(st.all, r)
		if st.node == nil {
			st.node = r.Node
		}
		st.mu.Unlock()
		st.requests.put(r)
		st.notify(Event{Stream: st.number, Variant: st.Variant, Request: r})
	}
}

// NextRequest takes the next request; the test fails if none comes within
// [Patience] or the stream ends.
func (st *OriginStream) NextRequest(t TB) *Request {
	t.Helper()
	return st.next(t, "a request", func(*Request) bool { return true })
}

// NextRequestOf takes the next request for one type and leaves the others.
func (st *OriginStream) NextRequestOf(t TB, typeURL string) *Request {
	t.Helper()
	return st.next(t, "a request for "+shortType(typeURL), func(r *Request) bool { return r.TypeURL == typeURL })
}

func (st *OriginStream) next(t TB, what string, match func(*Request) bool) *Request {
	t.Helper()
	r, how, why := st.requests.take(Patience, match)
	switch how {
	case timedOut:
		t.Fatalf("origin stream %s: waited %v for %s, in vain%s", st.id, Patience, what, st.log)
	case ended:
		t.Fatalf("origin stream %s: ended (%v) instead of bringing %s%s", st.id, why, what, st.log)
	}
	return r
}

// Quiet fails the test if a request waits to be taken or comes within d (0
// means [QuietWindow]), or if the stream ends.
func (st *OriginStream) Quiet(t TB, d time.Duration) {
	t.Helper()
	if d <= 0 {
		d = QuietWindow
	}
	r, how, why := st.requests.take(d, func(*Request) bool { return true })
	switch how {
	case taken:
		t.Fatalf("origin stream %s: expected silence for %v, got %s%s", st.id, d, r, st.log)
	case ended:
		t.Fatalf("origin stream %s: ended (%v) within the quiet window%s", st.id, why, st.log)
	}
}

// Requests lists every request so far, taken or not.
func (st *OriginStream) Requests() []*Request {
	st.mu.Lock()
	defer st.mu.Unlock()
	return append([]*Request(nil), st.all...)
}

// Node is the node of the first request that had one; nil before.
func (st *OriginStream) Node() *corev3.Node {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.node
}

// Send sends a *DiscoveryResponse or *DeltaDiscoveryResponse as it is. A stream
// that has ended is an error.
func (st *OriginStream) Send(m proto.Message) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.sendLocked(m)
}

func (st *OriginStream) sendLocked(m proto.Message) error {
	if st.retired {
		return fmt.Errorf("origin stream %s has ended: cannot send %s", st.id, lineOf(m))
	}
	if err := st.grpc.SendMsg(m); err != nil {
		st.log.add("%s -> could not send %s: %v", st.id, lineOf(m), err)
		return err
	}
	st.log.add("%s -> %s", st.id, lineOf(m))
	return nil
}

// Respond sends resources of a type in the variant of the stream, with a fresh
// nonce, which it returns. version is the version of the response and, on
// delta, of each resource. Resources are named by their bodies; a [Named] says
// otherwise (delta).
func (st *OriginStream) Respond(t TB, typeURL, version string, resources ...proto.Message) (nonce string) {
	t.Helper()
	if !st.Variant.Delta {
		bodies := make([]*anypb.Any, len(resources))
		for i, r := range resources {
			_, bodies[i] = nameAndBody(r)
		}
		return st.respond(t, func(nonce string) proto.Message {
			return &discoveryv3.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: version, Nonce: nonce, Resources: bodies}
		})
	}
	wrapped := make([]*discoveryv3.Resource, len(resources))
	for i, r := range resources {
		name, body := nameAndBody(r)
		wrapped[i] = &discoveryv3.Resource{Name: name, Version: version, Resource: body}
	}
	return st.respond(t, func(nonce string) proto.Message {
		return &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, SystemVersionInfo: version, Nonce: nonce, Resources: wrapped}
	})
}

// RespondRemoved says on a delta stream that names are gone or never were.
func (st *OriginStream) RespondRemoved(t TB, typeURL, version string, names ...string) (nonce string) {
	t.Helper()
	if !st.Variant.Delta {
		t.Fatalf("origin stream %s is %s, which has no removals", st.id, st.Variant)
	}
	return st.respond(t, func(nonce string) proto.Message {
		return &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, SystemVersionInfo: version, Nonce: nonce, RemovedResources: names}
	})
}

func (st *OriginStream) respond(t TB, build func(nonce string) proto.Message) string {
	t.Helper()
	st.mu.Lock()
	st.nonces++
	nonce := fmt.Sprintf("n%d", st.nonces)
	err := st.sendLocked(build(nonce))
	st.mu.Unlock()
	if err != nil {
		t.Fatalf("origin stream %s: respond: %v%s", st.id, err, st.log)
	}
	return nonce
}

// Close ends the stream with a status; nil is a plain end.
func (st *OriginStream) Close(s *status.Status) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.closed {
		st.closed, st.end = true, s.Err()
		close(st.closing)
	}
}

// WaitClosed waits until the stream has ended, from whichever side.
func (st *OriginStream) WaitClosed(t TB) {
	t.Helper()
	if how, _ := st.requests.waitEnd(Patience); how != ended {
		t.Fatalf("origin stream %s: still open after %v%s", st.id, Patience, st.log)
	}
}

func (st *OriginStream) status() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.end
}

// retire is the last thing that the handler does: gRPC forbids sending once it
// has returned.
func (st *OriginStream) retire(end error) {
	st.mu.Lock()
	st.retired = true
	st.mu.Unlock()
	st.log.add("%s ended: %v", st.id, end)
	st.requests.finish(end)
}
