package xdstest

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/xdsclient"
)

// OriginStream is one stream that a client opened to an [Origin].
type OriginStream struct {
	served[*Request]

	// Variant is how the client called.
	Variant Variant // fixed
	number  int     // fixed

	// Guarded by the mutex of served.
	all    []*Request // in the order of arrival
	nonces int
}

// receive takes the next request from the transport.
func (st *OriginStream) receive() (*Request, *corev3.Node, error) {
	var m proto.Message = &discoveryv3.DiscoveryRequest{}
	if st.Variant.Delta {
		m = &discoveryv3.DeltaDiscoveryRequest{}
	}
	if err := st.grpc.RecvMsg(m); err != nil {
		return nil, nil, err
	}
	r := xdsclient.RequestOf(m)
	return r, r.Node, nil
}

// NextRequest takes the next request; the test fails if none comes within
// [Patience] or the stream ends.
func (st *OriginStream) NextRequest(t TB) *Request {
	t.Helper()
	return st.inbox.next(t, "a request", nil)
}

// NextRequestOf takes the next request for one type and leaves the others.
func (st *OriginStream) NextRequestOf(t TB, typeURL string) *Request {
	t.Helper()
	return st.inbox.next(t, "a request for "+xdsclient.ShortType(typeURL), func(r *Request) bool { return r.TypeURL == typeURL })
}

// Requests lists every request so far, taken or not.
func (st *OriginStream) Requests() []*Request {
	st.mu.Lock()
	defer st.mu.Unlock()
	return append([]*Request(nil), st.all...)
}

// Send sends a *DiscoveryResponse or *DeltaDiscoveryResponse as it is. A stream
// that has ended is an error.
func (st *OriginStream) Send(m proto.Message) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.sendLocked(m, lineOf(m))
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
	m := build(nonce)
	err := st.sendLocked(m, lineOf(m))
	st.mu.Unlock()
	if err != nil {
		t.Fatalf("origin stream %s: respond: %v%s", st.id, err, st.log)
	}
	return nonce
}
