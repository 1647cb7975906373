package xdsclient

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

// Request is one request, seen alike for all variants. It is not changed after
// it was received.
type Request struct {
	Delta   bool
	TypeURL string
	Node    *corev3.Node // nil if this message had none
	Nonce   string
	Error   *statuspb.Status // error_detail; a NACK has one (B13)

	Version string   // SotW: version_info
	Names   []string // SotW: resource_names

	Subscribe   []string          // delta
	Unsubscribe []string          // delta
	Initial     map[string]string // delta: initial_resource_versions

	// Raw is the *DiscoveryRequest or *DeltaDiscoveryRequest itself.
	Raw proto.Message
}

// IsNack reports whether the request rejects a response.
func (r *Request) IsNack() bool { return r.Error != nil }

// IsAck reports whether the request accepts a response, as far as the request alone
// shows: it quotes a nonce and no error.
func (r *Request) IsAck() bool { return r.Error == nil && r.Nonce != "" }

// String is the request in one line.
func (r *Request) String() string {
	var b strings.Builder
	b.WriteString(ShortType(r.TypeURL))
	if r.TypeURL == "" {
		b.WriteString("(no type)")
	}
	if r.Delta {
		if len(r.Subscribe) > 0 {
			fmt.Fprintf(&b, " subscribe=%s", Brief(r.Subscribe))
		}
		if len(r.Unsubscribe) > 0 {
			fmt.Fprintf(&b, " unsubscribe=%s", Brief(r.Unsubscribe))
		}
		if len(r.Initial) > 0 {
			fmt.Fprintf(&b, " initial=%s", Brief(slices.Sorted(maps.Keys(r.Initial))))
		}
	} else {
		fmt.Fprintf(&b, " version=%q %s", r.Version, Brief(r.Names))
	}
	fmt.Fprintf(&b, " nonce=%q", r.Nonce)
	if r.Node != nil {
		fmt.Fprintf(&b, " node=%q", r.Node.GetId())
	}
	if r.Error != nil {
		fmt.Fprintf(&b, " NACK(%d): %s", r.Error.GetCode(), r.Error.GetMessage())
	}
	return b.String()
}

// RequestOf takes a *DiscoveryRequest or *DeltaDiscoveryRequest apart. Of another message, only Raw is set.
func RequestOf(m proto.Message) *Request {
	switch m := m.(type) {
	case *discoveryv3.DiscoveryRequest:
		return &Request{
			TypeURL: m.GetTypeUrl(), Node: m.GetNode(), Nonce: m.GetResponseNonce(), Error: m.GetErrorDetail(),
			Version: m.GetVersionInfo(), Names: m.GetResourceNames(), Raw: m,
		}
	case *discoveryv3.DeltaDiscoveryRequest:
		return &Request{
			Delta: true, TypeURL: m.GetTypeUrl(), Node: m.GetNode(), Nonce: m.GetResponseNonce(), Error: m.GetErrorDetail(),
			Subscribe: m.GetResourceNamesSubscribe(), Unsubscribe: m.GetResourceNamesUnsubscribe(),
			Initial: m.GetInitialResourceVersions(), Raw: m,
		}
	default:
		return &Request{Raw: m}
	}
}
