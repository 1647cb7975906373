package resource

// Istio's control plane serves types of its own beside those of table A-1, to its
// agents and node proxies. What they are like is not in the protocol, so it stands
// here: clients of them ask for everything with an empty list, and some types have
// a single resource, to which Istio gives no name.

// Type URLs of Istio.
const (
	NameTableURL     = TypePrefix + "istio.networking.nds.v1.NameTable"
	ProxyConfigURL   = TypePrefix + "istio.mesh.v1alpha1.ProxyConfig"
	AddressURL       = TypePrefix + "istio.workload.Address"
	WorkloadURL      = TypePrefix + "istio.workload.Workload"
	AuthorizationURL = TypePrefix + "istio.security.Authorization"
)

// knownIstio are relayed last in the order E1, since none of them refers to others.
// An Address and an Authorization do not name themselves by one field, so they have
// no SotW form; the field of a Workload is its uid.
var knownIstio = []*Type{
	{URL: NameTableURL, OnlyName: "NameTable", FullState: true, Wildcard: true, Order: orderLast},
	{URL: ProxyConfigURL, OnlyName: "ProxyConfig", FullState: true, Wildcard: true, Order: orderLast},
	{URL: AddressURL, Wildcard: true, Order: orderLast},
	{URL: WorkloadURL, NameField: 20, Wildcard: true, Order: orderLast},
	{URL: AuthorizationURL, Wildcard: true, Order: orderLast},
}
