package upstream

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// wildcard is the name that stands for everything.
const wildcard = "*"

// message is what one request says beyond its type. The two variants use
// different parts of it.
type message struct {
	version string // last accepted (SotW)
	nonce   string
	refusal *statuspb.Status

	subscribe, unsubscribe []string          // delta
	held                   map[string]string // delta
	settled                bool              // delta, to another node; see resource.Request
	errored                resource.Errored  // the same
}

func (m message) sotw(a *asked, node *corev3.Node) proto.Message {
	return &discoveryv3.DiscoveryRequest{
		Node: node, TypeUrl: a.typ.URL, ResourceNames: a.names,
		VersionInfo: m.version, ResponseNonce: m.nonce, ErrorDetail: m.refusal,
	}
}

func (m message) delta(a *asked, node *corev3.Node) proto.Message {
	r := &discoveryv3.DeltaDiscoveryRequest{
		Node: node, TypeUrl: a.typ.URL,
		ResourceNamesSubscribe: m.subscribe, ResourceNamesUnsubscribe: m.unsubscribe,
		InitialResourceVersions: m.held, ResponseNonce: m.nonce, ErrorDetail: m.refusal,
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

// restate brings a up to date with a whole demand on SotW and reports whether
// that has to be said.
func (a *asked) restate(d *cache.Demand, form WildcardForm, first bool) bool {
	names := d.Names
	switch {
	case d.Wildcard && (form == WildcardStar || a.named || len(names) > 0 || !a.typ.Wildcard):
		names = append([]string{wildcard}, names...) // D10
	case !d.Wildcard && len(names) == 0 && (first || !a.named):
		// C7: nothing was asked by name on this stream, so an empty list would
		// mean the wildcard.
		return false
	}
	a.wild, a.names = d.Wildcard, names
	a.named = a.named || len(names) > 0
	return true
}

// joinIsAmbiguous reports whether a delta request would subscribe to the wildcard on a stream
// that unsubscribed from something of the type. A response that crosses the two requests may
// bring a resource that the server removed before it read the second one: it has forgotten
// that the relay holds it, and its answer to the wildcard does not name it, so nothing would
// ever report the removal. Only a new stream is unambiguous.
func (a *asked) joinIsAmbiguous(d *cache.Demand) bool {
	return d.Wildcard && !a.wild && (a.unsubscribed || len(d.Unsubscribe) > 0)
}

// change is restate for delta: it returns what to add and to drop. whole says
// that d is everything that is wanted, not only what changed.
func (a *asked) change(d *cache.Demand, form WildcardForm, first, whole bool) (subscribe, unsubscribe []string, say bool) {
	subscribe, unsubscribe = d.Subscribe, d.Unsubscribe
	if first && !d.Wildcard && len(subscribe) == 0 {
		return nil, nil, false // nothing to drop on a new stream
	}
	legacy := first && d.Wildcard && len(subscribe) == 0 && form == WildcardLegacy && a.typ.Wildcard
	switch {
	case legacy:
	case d.Wildcard && (first || whole || d.WildcardChanged || a.legacy && len(subscribe) > 0):
		// D10: the last of these spells out a wildcard that was in the legacy
		// form, since not all servers keep that one when names are added.
		subscribe = append([]string{wildcard}, subscribe...)
	case a.wild && !d.Wildcard:
		unsubscribe = append([]string{wildcard}, unsubscribe...)
		if a.legacy {
			// Not all servers hear that something is left that was never said;
			// in one message it is said and left (B23).
			subscribe = append([]string{wildcard}, subscribe...)
		}
	}
	a.legacy = legacy || a.legacy && d.Wildcard && len(subscribe) == 0
	a.wild = d.Wildcard
	a.unsubscribed = a.unsubscribed || len(unsubscribe) > 0
	return subscribe, unsubscribe, legacy || len(subscribe)+len(unsubscribe) > 0
}
