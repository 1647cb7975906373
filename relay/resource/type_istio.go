package resource

// The control plane of Istio serves types of its own besides those of table A-1, to its agents and
// node proxies. The protocol does not describe them, so this file does: their clients subscribe to
// everything with an empty list, and some types have a single resource, which Istio sends without a
// name.

// Type URLs of Istio.
const (
	NameTableURL     = TypePrefix + "istio.networking.nds.v1.NameTable"
	ProxyConfigURL   = TypePrefix + "istio.mesh.v1alpha1.ProxyConfig"
	AddressURL       = TypePrefix + "istio.workload.Address"
	WorkloadURL      = TypePrefix + "istio.workload.Workload"
	AuthorizationURL = TypePrefix + "istio.security.Authorization"
)

// knownIstio are last in the order E1, since none of them refers to others. An Address and an
// Authorization have no single name field, so they have no SotW form; the name field of a Workload
// is its uid.
var knownIstio = []*Type{
	{URL: NameTableURL, OnlyName: "NameTable", FullState: true, Wildcard: true, Order: orderLast},
	{URL: ProxyConfigURL, OnlyName: "ProxyConfig", FullState: true, Wildcard: true, Order: orderLast},
	{URL: AddressURL, Wildcard: true, Order: orderLast},
	{URL: WorkloadURL, NameField: 20, Wildcard: true, Order: orderLast},
	{URL: AuthorizationURL, Wildcard: true, Order: orderLast},
}
