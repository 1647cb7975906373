package upstream

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/resource"
)

// message is the content of one request besides its type. The two variants use different parts of
// it.
type message struct {
	version     string // last accepted (SotW)
	nonce       string
	errorDetail *statuspb.Status

	names                  []string          // SotW
	subscribe, unsubscribe []string          // delta
	initialVersions        map[string]string // delta
	settled                bool              // delta, to another node; see resource.Request
	errored                resource.Errored  // delta, to another node
}

func (m message) sotw(a *asked, node *corev3.Node) proto.Message {
	return &discoveryv3.DiscoveryRequest{
		Node: node, TypeUrl: a.Type.URL, ResourceNames: m.names,
		VersionInfo: m.version, ResponseNonce: m.nonce, ErrorDetail: m.errorDetail,
	}
}

func (m message) delta(a *asked, node *corev3.Node) proto.Message {
	r := &discoveryv3.DeltaDiscoveryRequest{
		Node: node, TypeUrl: a.Type.URL,
		ResourceNamesSubscribe: m.subscribe, ResourceNamesUnsubscribe: m.unsubscribe,
		InitialResourceVersions: m.initialVersions, ResponseNonce: m.nonce, ErrorDetail: m.errorDetail,
	}
	var marks []byte
	if m.settled {
		marks = resource.SettledField()
	}
	if len(m.errored.Names) > 0 {
		marks = append(marks, resource.ErroredField(m.errored)...)
	}
	r.ProtoReflect().SetUnknown(marks)
	return r
}
