package xdsclient

import (
	"cmp"
	"slices"
	"strings"
)

const typePrefix = "type.googleapis.com/"

// Type URLs of the v3 resources (table A-1 of the protocol rules).
const (
	ListenerType        = typePrefix + "envoy.config.listener.v3.Listener"
	RouteType           = typePrefix + "envoy.config.route.v3.RouteConfiguration"
	ScopedRouteType     = typePrefix + "envoy.config.route.v3.ScopedRouteConfiguration"
	VirtualHostType     = typePrefix + "envoy.config.route.v3.VirtualHost"
	ClusterType         = typePrefix + "envoy.config.cluster.v3.Cluster"
	EndpointType        = typePrefix + "envoy.config.endpoint.v3.ClusterLoadAssignment"
	LbEndpointType      = typePrefix + "envoy.config.endpoint.v3.LbEndpoint"
	SecretType          = typePrefix + "envoy.extensions.transport_sockets.tls.v3.Secret"
	RuntimeType         = typePrefix + "envoy.service.runtime.v3.Runtime"
	ExtensionConfigType = typePrefix + "envoy.config.core.v3.TypedExtensionConfig"
	ThriftRouteType     = typePrefix + "envoy.extensions.filters.network.thrift_proxy.v3.RouteConfiguration"
	RateLimitConfigType = typePrefix + "ratelimit.config.ratelimit.v3.RateLimitConfig"

	// wrapperType is the envelope that a SotW response may put around a
	// resource (F2).
	wrapperType = typePrefix + "envoy.service.discovery.v3.Resource"
)

// Wildcard is the name that subscribes to everything of a type.
const Wildcard = "*"

// service is one gRPC service of table A-1.
type service struct {
	typeURL string // "" for ADS
	name    string
	plural  string // the method is Stream<plural> or Delta<plural>
	sotw    bool   // the service has the Stream method too
}

// services is table A-1; ADS comes first. It is never changed.
var services = [...]service{
	{"", "envoy.service.discovery.v3.AggregatedDiscoveryService", "AggregatedResources", true},
	{ListenerType, "envoy.service.listener.v3.ListenerDiscoveryService", "Listeners", true},
	{RouteType, "envoy.service.route.v3.RouteDiscoveryService", "Routes", true},
	{ScopedRouteType, "envoy.service.route.v3.ScopedRoutesDiscoveryService", "ScopedRoutes", true},
	{VirtualHostType, "envoy.service.route.v3.VirtualHostDiscoveryService", "VirtualHosts", false},
	{ClusterType, "envoy.service.cluster.v3.ClusterDiscoveryService", "Clusters", true},
	{EndpointType, "envoy.service.endpoint.v3.EndpointDiscoveryService", "Endpoints", true},
	{LbEndpointType, "envoy.service.endpoint.v3.LocalityEndpointDiscoveryService", "LocalityEndpoints", false},
	{SecretType, "envoy.service.secret.v3.SecretDiscoveryService", "Secrets", true},
	{RuntimeType, "envoy.service.runtime.v3.RuntimeDiscoveryService", "Runtime", true},
	{ExtensionConfigType, "envoy.service.extension.v3.ExtensionConfigDiscoveryService", "ExtensionConfigs", true},
}

// ServiceTypes lists the types that have a discovery service of their own, in both versions.
func ServiceTypes() (types []string) {
	for _, s := range slices.Concat(services[1:], servicesV2[1:]) {
		types = append(types, s.typeURL)
	}
	return types
}

func serviceOf(typeURL string, v2 bool) (service, bool) {
	table := services[:]
	if v2 {
		table = servicesV2[:]
	}
	i := slices.IndexFunc(table, func(s service) bool { return s.typeURL == typeURL })
	if i < 0 {
		return service{}, false
	}
	return table[i], true
}

// Variant is one of the ways to speak xDS.
type Variant struct {
	// Delta says incremental; otherwise state of the world.
	Delta bool
	// Service is the type URL whose own discovery service is used; "" is ADS.
	Service string
	// V2 says version 2 of the protocol; otherwise version 3. A type's own
	// service is one of the type's version.
	V2 bool
}

// The two aggregated variants.
var (
	SotW  = Variant{}
	Delta = Variant{Delta: true}
)

// Variants lists every variant that can carry resources of the given type: both
// aggregated ones, and those of the type's own service if it has one.
func Variants(typeURL string) []Variant {
	v2 := isV2(typeURL)
	all := []Variant{{V2: v2}, {Delta: true, V2: v2}}
	if s, ok := serviceOf(typeURL, v2); ok && typeURL != "" {
		if s.sotw {
			all = append(all, Variant{Service: typeURL, V2: v2})
		}
		all = append(all, Variant{Delta: true, Service: typeURL, V2: v2})
	}
	return all
}

// String names the variant for test names and messages: "sotw-ads",
// "delta-Cluster", "sotw-ads-v2".
func (v Variant) String() string {
	text := "sotw"
	if v.Delta {
		text = "delta"
	}
	if v.Service == "" {
		text += "-ads"
	} else {
		text += "-" + ShortType(v.Service)
	}
	if v.V2 {
		text += "-v2"
	}
	return text
}

// Method is the full gRPC method of the variant, or "" if there is none.
func (v Variant) Method() string {
	s, ok := serviceOf(v.Service, v.V2)
	switch {
	case !ok, !v.Delta && !s.sotw:
		return ""
	case v.Delta:
		return "/" + s.name + "/Delta" + s.plural
	default:
		return "/" + s.name + "/Stream" + s.plural
	}
}

// FullState reports whether a SotW response of the type carries the whole
// subscribed set, so that what it leaves out is gone (A6).
func FullState(typeURL string) bool {
	typeURL = V3TypeOf(typeURL)
	return typeURL == ListenerType || typeURL == ClusterType || typeURL == ScopedRouteType
}

// WildcardCapable reports whether a first request of the type without names
// subscribes to everything (B20, B21, B23).
func WildcardCapable(typeURL string) bool {
	return FullState(typeURL) || V3TypeOf(typeURL) == VirtualHostType
}

// ShortType is the last word of a type URL, for messages.
func ShortType(typeURL string) string {
	if i := strings.LastIndexByte(typeURL, '.'); i >= 0 {
		return typeURL[i+1:]
	}
	return typeURL
}

// pushOrder holds the types whose order of sending matters, parents of a
// make-before-break change after the things they refer to (E1).
var pushOrder = [...]string{
	ClusterType, EndpointType, LbEndpointType, ListenerType, ScopedRouteType, RouteType, VirtualHostType,
}

// InPushOrder sorts type URLs by E1; types without a place go last, by name.
func InPushOrder(types []string) []string {
	rank := func(u string) int {
		if i := slices.Index(pushOrder[:], V3TypeOf(u)); i >= 0 {
			return i
		}
		return len(pushOrder)
	}
	slices.SortFunc(types, func(a, b string) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
	})
	return types
}
