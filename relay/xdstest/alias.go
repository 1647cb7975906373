package xdstest

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdsclient"
)

// Variant is one of the ways to speak xDS.
type Variant = xdsclient.Variant

// Frame is one response, seen alike for all variants.
type Frame = xdsclient.Frame

// Resource is one resource of a [Frame].
type Resource = xdsclient.Resource

// Request is one request, seen alike for all variants.
type Request = xdsclient.Request

// The two aggregated variants.
var (
	SotW  = xdsclient.SotW
	Delta = xdsclient.Delta
)

// Wildcard is the name that subscribes to everything of a type.
const Wildcard = xdsclient.Wildcard

const typePrefix = resource.TypePrefix

// Type URLs of the resources of both versions (table A-1 of the protocol rules).
const (
	ListenerType        = xdsclient.ListenerType
	RouteType           = xdsclient.RouteType
	ScopedRouteType     = xdsclient.ScopedRouteType
	VirtualHostType     = xdsclient.VirtualHostType
	ClusterType         = xdsclient.ClusterType
	EndpointType        = xdsclient.EndpointType
	LbEndpointType      = xdsclient.LbEndpointType
	SecretType          = xdsclient.SecretType
	RuntimeType         = xdsclient.RuntimeType
	ExtensionConfigType = xdsclient.ExtensionConfigType
	ThriftRouteType     = xdsclient.ThriftRouteType
	RateLimitConfigType = xdsclient.RateLimitConfigType

	ListenerV2Type    = xdsclient.ListenerV2Type
	RouteV2Type       = xdsclient.RouteV2Type
	ScopedRouteV2Type = xdsclient.ScopedRouteV2Type
	VirtualHostV2Type = xdsclient.VirtualHostV2Type
	ClusterV2Type     = xdsclient.ClusterV2Type
	EndpointV2Type    = xdsclient.EndpointV2Type
	SecretV2Type      = xdsclient.SecretV2Type
	RuntimeV2Type     = xdsclient.RuntimeV2Type
)

// Variants lists every variant that can carry resources of the given type: both
// aggregated ones, and those of the type's own service if it has one.
func Variants(typeURL string) []Variant { return xdsclient.Variants(typeURL) }

// FullState reports whether a SotW response of the type carries the whole
// subscribed set, so that what it leaves out is gone (A6).
func FullState(typeURL string) bool { return xdsclient.FullState(typeURL) }

// WildcardCapable reports whether a first request of the type without names
// subscribes to everything (B20, B21, B23).
func WildcardCapable(typeURL string) bool { return xdsclient.WildcardCapable(typeURL) }

// V2TypeOf is the type URL of version 2 for one of version 3; "" if there is none.
func V2TypeOf(typeURL string) string { return xdsclient.V2TypeOf(typeURL) }

// V2 packs a resource under its type of version 2, as which it has the same
// encoding. It panics on a type that version 2 does not have.
func V2(m proto.Message) *anypb.Any {
	a := Any(m)
	if a.TypeUrl = V2TypeOf(a.TypeUrl); a.TypeUrl == "" {
		panic("xdstest: version 2 has no " + TypeOf(m))
	}
	return a
}

// FrameOf takes a *DiscoveryResponse or *DeltaDiscoveryResponse apart.
func FrameOf(m proto.Message) (*Frame, error) { return xdsclient.FrameOf(m) }

// Covers reports whether one of the names is that of a resource, or the glob
// that holds it (G6). All names are canonical.
func Covers(names map[string]bool, name string) bool { return xdsclient.Covers(names, name) }
