package upstream

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// wildcard is the name of the wildcard subscription.
const wildcard = "*"

// message is the content of one request besides its type. The two variants use different parts of
// it.
type message struct {
	version     string // last accepted (SotW)
	nonce       string
	errorDetail *statuspb.Status

	subscribe, unsubscribe []string          // delta
	initialVersions        map[string]string // delta
	settled                bool              // delta, to another node; see resource.Request
	errored                resource.Errored  // delta, to another node
}

func (m message) sotw(a *asked, node *corev3.Node) proto.Message {
	return &discoveryv3.DiscoveryRequest{
		Node: node, TypeUrl: a.typ.URL, ResourceNames: a.names,
		VersionInfo: m.version, ResponseNonce: m.nonce, ErrorDetail: m.errorDetail,
	}
}

func (m message) delta(a *asked, node *corev3.Node) proto.Message {
	r := &discoveryv3.DeltaDiscoveryRequest{
		Node: node, TypeUrl: a.typ.URL,
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

// restate updates a to the complete demand on SotW and reports whether a request is needed.
func (a *asked) restate(d *cache.Demand, form WildcardForm, first bool) bool {
	names := d.Names
	switch {
	case d.Wildcard && (form == WildcardStar || a.named || len(names) > 0 || !a.typ.Wildcard):
		names = append([]string{wildcard}, names...) // D10
	case !d.Wildcard && len(names) == 0 && (first || !a.named):
		// C7: no request of this stream had a name, so an empty list would mean the wildcard.
		return false
	}
	a.wild, a.names = d.Wildcard, names
	a.named = a.named || len(names) > 0
	return true
}

// joinIsAmbiguous reports whether a delta request would subscribe to the wildcard on a stream that
// has unsubscribed from something of the type. A response that crosses the two requests may carry a
// resource that the server removes before it reads the second one. The server has then forgotten
// that the relay has the resource, and its answer to the wildcard does not name it, so it would
// never report the removal. Only a new stream is unambiguous.
func (a *asked) joinIsAmbiguous(d *cache.Demand) bool {
	return d.Wildcard && !a.wild && (a.hasUnsubscribed || len(d.Unsubscribe) > 0)
}

// change is restate for delta: it returns the names to subscribe and to unsubscribe. With whole, d
// is everything that is wanted, not only the changes.
func (a *asked) change(d *cache.Demand, form WildcardForm, first, whole bool) (subscribe, unsubscribe []string, send bool) {
	subscribe, unsubscribe = d.Subscribe, d.Unsubscribe
	if first && !d.Wildcard && len(subscribe) == 0 {
		return nil, nil, false // a new stream has nothing to unsubscribe
	}
	legacy := first && d.Wildcard && len(subscribe) == 0 && form == WildcardLegacy && a.typ.Wildcard
	switch {
	case legacy:
	case d.Wildcard && (first || whole || d.WildcardChanged || a.legacy && len(subscribe) > 0):
		// D10: the last condition makes a wildcard in legacy form explicit, since not all servers
		// keep that form when names are added.
		subscribe = append([]string{wildcard}, subscribe...)
	case a.wild && !d.Wildcard:
		unsubscribe = append([]string{wildcard}, unsubscribe...)
		if a.legacy {
			// Not all servers accept an unsubscription from a wildcard that was never explicit. So
			// one message subscribes and unsubscribes it (B23).
			subscribe = append([]string{wildcard}, subscribe...)
		}
	}
	a.legacy = legacy || a.legacy && d.Wildcard && len(subscribe) == 0
	a.wild = d.Wildcard
	a.hasUnsubscribed = a.hasUnsubscribed || len(unsubscribe) > 0
	return subscribe, unsubscribe, legacy || len(subscribe)+len(unsubscribe) > 0
}
