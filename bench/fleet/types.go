package fleet

import (
	"fmt"
	"strings"

	"xdsrelay/bench/content"
)

// kind is one of the types that clients ask for, in the order in which changes
// have to arrive.
type kind uint8

const (
	cds kind = iota
	eds
	lds
	rds
	kinds // how many there are
)

// kindInfo is what is fixed about a type.
type kindInfo struct {
	name, url string
	service   string // of the per-type methods
	plural    string // of the per-type methods
	wild      bool   // clients ask for all there are, and SotW responses hold all
	child     kind   // what clients ask for by the names of these; kinds for nothing
}

func (k kind) info() *kindInfo { return &kindTable[k] }

var kindTable = [kinds]kindInfo{
	cds: {"cds", content.ClusterURL, "envoy.service.cluster.v3.ClusterDiscoveryService", "Clusters", true, eds},
	eds: {"eds", content.EndpointURL, "envoy.service.endpoint.v3.EndpointDiscoveryService", "Endpoints", false, kinds},
	lds: {"lds", content.ListenerURL, "envoy.service.listener.v3.ListenerDiscoveryService", "Listeners", true, rds},
	rds: {"rds", content.RouteURL, "envoy.service.route.v3.RouteDiscoveryService", "Routes", false, kinds},
}

// kindOf finds a type by its URL.
func kindOf(url []byte) (kind, bool) {
	for k := range kinds {
		if string(url) == kindTable[k].url {
			return k, true
		}
	}
	return kinds, false
}

// parent is the type whose resources name those of k; kinds for none.
func (k kind) parent() kind {
	switch k {
	case eds:
		return cds
	case rds:
		return lds
	}
	return kinds
}

// method is the path of the call for type k, or of the aggregated call where k
// is kinds.
func method(k kind, delta bool) string {
	variant := "Stream"
	if delta {
		variant = "Delta"
	}
	if k == kinds {
		return "/envoy.service.discovery.v3.AggregatedDiscoveryService/" + variant + "AggregatedResources"
	}
	return "/" + k.info().service + "/" + variant + k.info().plural
}

// kindSet is a set of types.
type kindSet uint8

func (s kindSet) has(k kind) bool { return s>>k&1 != 0 }

// parseKinds reads short names: cds, eds, lds, rds.
func parseKinds(names []string) (kindSet, error) {
	var s kindSet
	for _, n := range names {
		url, ok := content.TypeByName(strings.TrimSpace(n))
		if !ok {
			return 0, fmt.Errorf("type %q, expected cds, eds, lds or rds", n)
		}
		k, _ := kindOf([]byte(url))
		s |= 1 << k
	}
	for k := range kinds {
		if p := k.parent(); s.has(k) && p != kinds && !s.has(p) {
			return 0, fmt.Errorf("type %s without %s, from which clients learn the names", k.info().name, p.info().name)
		}
	}
	return s, nil
}
