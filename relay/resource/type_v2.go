package resource

import "slices"

// Version 2 of the protocol has the types of table A-1 under their earlier names, with services of
// their own. The few fields that the relay reads have the same numbers in both versions. Types of
// version 2 share neither tables nor upstream subscriptions with those of version 3 (J4), since
// their type URLs differ.

// Type URLs of version 2 that code refers to by name.
const (
	ListenerV2URL    = TypePrefix + "envoy.api.v2.Listener"
	RouteV2URL       = TypePrefix + "envoy.api.v2.RouteConfiguration"
	ScopedRouteV2URL = TypePrefix + "envoy.api.v2.ScopedRouteConfiguration"
	VirtualHostV2URL = TypePrefix + "envoy.api.v2.route.VirtualHost"
	ClusterV2URL     = TypePrefix + "envoy.api.v2.Cluster"
	EndpointV2URL    = TypePrefix + "envoy.api.v2.ClusterLoadAssignment"
	SecretV2URL      = TypePrefix + "envoy.api.v2.auth.Secret"
	RuntimeV2URL     = TypePrefix + "envoy.service.discovery.v2.Runtime"
)

// knownV2 is in the order E1.
var knownV2 = []*Type{
	{URL: ClusterV2URL, V2: true, NameField: 1, FullState: true, Wildcard: true, Order: 0, EndpointType: EndpointV2URL, Service: serviceV2("envoy.api.v2.Cluster", "Clusters", "envoy/api/v2/cds", "clusters")},
	{URL: EndpointV2URL, V2: true, NameField: 1, Order: 1, Service: serviceV2("envoy.api.v2.Endpoint", "Endpoints", "envoy/api/v2/eds", "endpoints")},
	{URL: ListenerV2URL, V2: true, NameField: 1, FullState: true, Wildcard: true, Order: 3, Service: serviceV2("envoy.api.v2.Listener", "Listeners", "envoy/api/v2/lds", "listeners")},
	{URL: ScopedRouteV2URL, V2: true, NameField: 1, FullState: true, Wildcard: true, Order: 4, Service: serviceV2("envoy.api.v2.ScopedRoutes", "ScopedRoutes", "envoy/api/v2/srds", "scoped-routes")},
	{URL: RouteV2URL, V2: true, NameField: 1, Order: 5, Service: serviceV2("envoy.api.v2.Route", "Routes", "envoy/api/v2/rds", "routes")},
	{URL: VirtualHostV2URL, V2: true, Wildcard: true, Order: 6, Service: serviceV2("envoy.api.v2.VirtualHost", "VirtualHosts", "envoy/api/v2/rds", "")},
	{URL: SecretV2URL, V2: true, NameField: 1, Order: orderLast, Service: serviceV2("envoy.service.discovery.v2.Secret", "Secrets", "envoy/service/discovery/v2/sds", "secrets")},
	{URL: RuntimeV2URL, V2: true, NameField: 1, Order: orderLast, Service: serviceV2("envoy.service.discovery.v2.Runtime", "Runtime", "envoy/service/discovery/v2/rtds", "runtime")},
}

func serviceV2(name, plural, file, rest string) *Service {
	s := &Service{Name: name + "DiscoveryService", File: file + ".proto", Delta: "Delta" + plural}
	if rest != "" {
		s.Stream, s.Fetch, s.REST = "Stream"+plural, "Fetch"+plural, "/v2/discovery:"+rest
	}
	return s
}

// KnownV2 returns the types of version 2 in the order E1; see [Known].
func KnownV2() []*Type { return slices.Clone(knownV2) }

// inV2 returns m with the fields of version 2 only: its messages have neither lifetimes, heartbeats
// and errors nor, in an envelope, anything but the aliases (J3). A client with the descriptors of
// version 2 would skip the rest.
func (m *Message) inV2() *Message {
	out := &Message{Type: m.Type, Version: m.Version, ControlPlane: m.ControlPlane, Resources: slices.Clone(m.Resources), Removed: m.Removed}
	for i, r := range out.Resources {
		if len(r.Extra) > 0 {
			bare := *r
			bare.Extra = aliasesOf(r.Extra)
			out.Resources[i] = &bare
		}
	}
	return out
}

// aliasesOf returns the aliases among encoded fields of an envelope.
func aliasesOf(extra []byte) (out []byte) {
	// It was decoded before, so there is no error.
	_ = eachField(extra, func(f field) error {
		if f.tag == resAliases {
			out = append(out, f.raw...)
		}
		return nil
	})
	return out
}
