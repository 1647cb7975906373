package resource

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// TypePrefix precedes the message name in every type URL.
const TypePrefix = "type.googleapis.com/"

// Type URLs of table A-1 that code refers to by name.
const (
	ListenerURL    = TypePrefix + "envoy.config.listener.v3.Listener"
	RouteURL       = TypePrefix + "envoy.config.route.v3.RouteConfiguration"
	ScopedRouteURL = TypePrefix + "envoy.config.route.v3.ScopedRouteConfiguration"
	VirtualHostURL = TypePrefix + "envoy.config.route.v3.VirtualHost"
	ClusterURL     = TypePrefix + "envoy.config.cluster.v3.Cluster"
	EndpointURL    = TypePrefix + "envoy.config.endpoint.v3.ClusterLoadAssignment"
	LbEndpointURL  = TypePrefix + "envoy.config.endpoint.v3.LbEndpoint"
	SecretURL      = TypePrefix + "envoy.extensions.transport_sockets.tls.v3.Secret"
	RuntimeURL     = TypePrefix + "envoy.service.runtime.v3.Runtime"
	ExtensionURL   = TypePrefix + "envoy.config.core.v3.TypedExtensionConfig"
	ThriftRouteURL = TypePrefix + "envoy.extensions.filters.network.thrift_proxy.v3.RouteConfiguration"
	RateLimitURL   = TypePrefix + "ratelimit.config.ratelimit.v3.RateLimitConfig"

	clusterListURL    = TypePrefix + "envoy.config.cluster.v3.ClusterCollection"
	lbEndpointListURL = TypePrefix + "envoy.config.endpoint.v3.LbEndpointCollection"
	listenerListURL   = TypePrefix + "envoy.config.listener.v3.ListenerCollection"

	resourceWrapper = TypePrefix + "envoy.service.discovery.v3.Resource"
)

// orderLast is the position in the order E1 of types that E1 does not list.
const orderLast = 7

// Type describes one resource type: table A-1 of the protocol rules. Known types from [TypeOf] may
// be compared by pointer, others by URL.
type Type struct {
	// URL is the type URL, compared and echoed as an exact string (A1).
	URL string
	// NameField is the field of the body with the name of the resource; 0 if only the envelope has
	// the name (VHDS, LEDS, collections), or if there is no name.
	NameField protowire.Number
	// OnlyName is the name of the only resource of the type if the control plane sends it without a
	// name, as Istio does. It is empty for all other types.
	OnlyName string
	// FullState is true if a SotW response has the whole subscribed set, so that absence from it
	// means removal (A6, B27, C11).
	FullState bool
	// Wildcard is true if an empty first subscription means "*" (B20, B23).
	Wildcard bool
	// Order is the position of the type when several wait for one stream (E1): lower is sent first.
	Order int
	// EndpointType is the type URL of the endpoint sets that clusters refer to (E3); empty for all
	// other types.
	EndpointType string
	// V2 is true if the type belongs to version 2 of the protocol. Only the methods of that version
	// serve it (J2).
	V2 bool
	// Service is the singleton service and its methods; nil if the type is served on ADS only.
	Service *Service
}

// Service is a per-type discovery service. An empty method name means that the service lacks the
// method (A4).
type Service struct {
	// Name is the full proto service name.
	Name string
	// File is the proto file that declares the service, for reflection.
	File string
	// Stream, Delta and Fetch are the SotW, delta and unary methods.
	Stream, Delta, Fetch string
	// REST is the path for polling the type (H1); empty if Fetch is.
	REST string
}

// NamedByBody reports whether the inner name of a delta resource must equal its envelope name,
// because SotW clients use the inner one as the key (A3).
func (t *Type) NamedByBody() bool {
	switch t.URL {
	case ListenerURL, RouteURL, ClusterURL, EndpointURL, SecretURL,
		ListenerV2URL, RouteV2URL, ClusterV2URL, EndpointV2URL, SecretV2URL:
		return true
	}
	return false
}

// HoldsSecrets reports whether the resources of a type are secrets, in any version of the protocol,
// or lists of secrets.
func HoldsSecrets(typeURL string) bool {
	name := typeURL[strings.LastIndexAny(typeURL, "./")+1:]
	return name == "Secret" || name == "SecretCollection"
}

// DeltaOnly reports whether the type has no SotW form (D8).
func (t *Type) DeltaOnly() bool { return t.NameField == 0 && t.OnlyName == "" }

// known is in the order E1.
var known = []*Type{
	{URL: ClusterURL, NameField: 1, FullState: true, Wildcard: true, Order: 0, EndpointType: EndpointURL, Service: service("cluster", "Cluster", "Clusters", "cds", "clusters")},
	{URL: clusterListURL, Order: 0},
	{URL: EndpointURL, NameField: 1, Order: 1, Service: service("endpoint", "Endpoint", "Endpoints", "eds", "endpoints")},
	{URL: LbEndpointURL, Order: 2, Service: service("endpoint", "LocalityEndpoint", "LocalityEndpoints", "leds", "")},
	{URL: lbEndpointListURL, Order: 2},
	{URL: ListenerURL, NameField: 1, FullState: true, Wildcard: true, Order: 3, Service: service("listener", "Listener", "Listeners", "lds", "listeners")},
	{URL: listenerListURL, Order: 3},
	{URL: ScopedRouteURL, NameField: 1, FullState: true, Wildcard: true, Order: 4, Service: service("route", "ScopedRoutes", "ScopedRoutes", "srds", "scoped-routes")},
	{URL: RouteURL, NameField: 1, Order: 5, Service: service("route", "Route", "Routes", "rds", "routes")},
	{URL: VirtualHostURL, Wildcard: true, Order: 6, Service: service("route", "VirtualHost", "VirtualHosts", "rds", "")},
	{URL: SecretURL, NameField: 1, Order: orderLast, Service: service("secret", "Secret", "Secrets", "sds", "secrets")},
	{URL: RuntimeURL, NameField: 1, Order: orderLast, Service: service("runtime", "Runtime", "Runtime", "rtds", "runtime")},
	{URL: ExtensionURL, NameField: 1, Order: orderLast, Service: service("extension", "ExtensionConfig", "ExtensionConfigs", "config_discovery", "extension_configs")},
	{URL: ThriftRouteURL, NameField: 1, Order: orderLast},
	{URL: RateLimitURL, NameField: 1, Order: orderLast},
}

// service derives the regular names of table A-1. A type without a REST path has no SotW method
// either.
func service(pkg, name, plural, file, rest string) *Service {
	s := &Service{
		Name:  "envoy.service." + pkg + ".v3." + name + "DiscoveryService",
		File:  "envoy/service/" + pkg + "/v3/" + file + ".proto",
		Delta: "Delta" + plural,
	}
	if rest != "" {
		s.Stream, s.Fetch, s.REST = "Stream"+plural, "Fetch"+plural, "/v3/discovery:"+rest
	}
	return s
}

var byURL = func() map[string]*Type {
	m := make(map[string]*Type, len(known)+len(knownV2)+len(knownIstio))
	for _, t := range slices.Concat(known, knownV2, knownIstio) {
		m[t.URL] = t
	}
	return m
}()

// ShortName returns the last part of the type URL, like Cluster.
func (t *Type) ShortName() string { return t.URL[strings.LastIndexAny(t.URL, "./")+1:] }

// TypeNamed returns the type for a name that a person entered: a type URL, or the short name of a
// type in table A-1 or of Istio, the first if there are several. It is nil for all other names.
func TypeNamed(name string) *Type {
	if strings.HasPrefix(name, TypePrefix) && name != TypePrefix {
		return TypeOf(name)
	}
	for _, t := range slices.Concat(known, knownIstio) {
		if t.ShortName() == name {
			return t
		}
	}
	return nil
}

// Known returns the types of table A-1 in the order E1, without those of version 2. The caller may
// keep and change the slice, not the types.
func Known() []*Type { return slices.Clone(known) }

// IsKnown reports whether url is in table A-1, in version 3 or 2, or is a type of Istio.
func IsKnown(url string) bool { return byURL[url] != nil }

// TypeOf returns the description of url. An unknown URL is relayed, too: as a type without full
// state or wildcard, whose bodies are named by field 1, as nearly every xDS message is. If the URL
// is that of a list collection, the envelopes alone name the resources.
func TypeOf(url string) *Type {
	if t, ok := byURL[url]; ok {
		return t
	}
	t := &Type{URL: url, NameField: 1, Order: orderLast}
	if strings.HasSuffix(url, collection) { // G8
		t.NameField = 0
	}
	return t
}
