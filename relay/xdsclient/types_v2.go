package xdsclient

import "slices"

// Type URLs of the resources of version 2 (table A-1 of the protocol rules).
const (
	ListenerV2Type    = typePrefix + "envoy.api.v2.Listener"
	RouteV2Type       = typePrefix + "envoy.api.v2.RouteConfiguration"
	ScopedRouteV2Type = typePrefix + "envoy.api.v2.ScopedRouteConfiguration"
	VirtualHostV2Type = typePrefix + "envoy.api.v2.route.VirtualHost"
	ClusterV2Type     = typePrefix + "envoy.api.v2.Cluster"
	EndpointV2Type    = typePrefix + "envoy.api.v2.ClusterLoadAssignment"
	SecretV2Type      = typePrefix + "envoy.api.v2.auth.Secret"
	RuntimeV2Type     = typePrefix + "envoy.service.discovery.v2.Runtime"
)

// servicesV2 is table A-1 for version 2; ADS comes first. It is never changed.
var servicesV2 = [...]service{
	{"", "envoy.service.discovery.v2.AggregatedDiscoveryService", "AggregatedResources", true},
	{ListenerV2Type, "envoy.api.v2.ListenerDiscoveryService", "Listeners", true},
	{RouteV2Type, "envoy.api.v2.RouteDiscoveryService", "Routes", true},
	{ScopedRouteV2Type, "envoy.api.v2.ScopedRoutesDiscoveryService", "ScopedRoutes", true},
	{VirtualHostV2Type, "envoy.api.v2.VirtualHostDiscoveryService", "VirtualHosts", false},
	{ClusterV2Type, "envoy.api.v2.ClusterDiscoveryService", "Clusters", true},
	{EndpointV2Type, "envoy.api.v2.EndpointDiscoveryService", "Endpoints", true},
	{SecretV2Type, "envoy.service.discovery.v2.SecretDiscoveryService", "Secrets", true},
	{RuntimeV2Type, "envoy.service.discovery.v2.RuntimeDiscoveryService", "Runtime", true},
}

// versions pairs the types of version 3 with those of version 2.
var versions = [...]struct{ v3, v2 string }{
	{ListenerType, ListenerV2Type}, {RouteType, RouteV2Type}, {ScopedRouteType, ScopedRouteV2Type}, {VirtualHostType, VirtualHostV2Type},
	{ClusterType, ClusterV2Type}, {EndpointType, EndpointV2Type}, {SecretType, SecretV2Type}, {RuntimeType, RuntimeV2Type},
}

// V2TypeOf is the type URL of version 2 for one of version 3; "" if there is none.
func V2TypeOf(typeURL string) string {
	for _, v := range versions {
		if v.v3 == typeURL {
			return v.v2
		}
	}
	return ""
}

// V3TypeOf is the type URL of version 3 for one of either version.
func V3TypeOf(typeURL string) string {
	i := slices.IndexFunc(versions[:], func(v struct{ v3, v2 string }) bool { return v.v2 == typeURL })
	if i < 0 {
		return typeURL
	}
	return versions[i].v3
}

func isV2(typeURL string) bool { return V3TypeOf(typeURL) != typeURL }
