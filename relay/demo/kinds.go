package demo

import (
	"maps"
	"slices"
)

// kind is a sort of client: what it speaks, and how it finds out what to ask
// for.
type kind struct {
	name  string
	short string // on the screen; may be shared
	delta bool
	// perType says that each type has a stream of its own, on its own service.
	perType bool
	// types are those that the client uses, in the order in which one leads to
	// the next; all says which of them it wants as a whole.
	types []string
	all   map[string]bool
	// service says that it starts from one listener, by name.
	service bool
	// weight is the kind's share in the fleet.
	weight int
}

var (
	everyClusterAndListener = map[string]bool{clusterType: true, listenerType: true}
	envoyTypes              = []string{clusterType, endpointType, listenerType, routeType}
	grpcTypes               = []string{listenerType, routeType, clusterType, endpointType}
)

// kinds returns the sorts of clients that there are.
func kinds() []*kind {
	return []*kind{
		{name: "Envoy delta", short: "Envoy delta", delta: true, types: envoyTypes, all: everyClusterAndListener, weight: 35},
		{name: "Envoy SotW", short: "Envoy SotW", types: envoyTypes, all: everyClusterAndListener, weight: 25},
		{name: "gRPC SotW", short: "gRPC SotW", types: grpcTypes, service: true, weight: 30},
		{name: "per-type delta", short: "per type", delta: true, perType: true, types: envoyTypes[:2], all: everyClusterAndListener, weight: 5},
		{name: "per-type SotW", short: "per type", perType: true, types: envoyTypes[:2], all: everyClusterAndListener, weight: 5},
	}
}

// wants returns what a client of the kind wants of a type, given what it holds:
// all of it, or the names that it has come across.
func (k *kind) wants(typeURL, service string, held func(yield func(*facts) bool)) (all bool, names []string) {
	if k.all[typeURL] {
		return true, nil
	}
	found := make(map[string]struct{})
	if k.service && typeURL == listenerType {
		found[service] = struct{}{}
	}
	for f := range held {
		for _, r := range f.refers {
			if r.typeURL == typeURL {
				found[r.name] = struct{}{}
			}
		}
	}
	return false, slices.Sorted(maps.Keys(found))
}

// expects returns what a client of the kind holds in the end, if content is all
// there is.
func (k *kind) expects(service string, content map[ref]*facts) map[ref]*facts {
	held := make(map[ref]*facts)
	for _, t := range k.types {
		all, names := k.wants(t, service, maps.Values(held))
		for r, f := range content {
			if r.typeURL == t && (all || slices.Contains(names, r.name)) {
				held[r] = f
			}
		}
	}
	return held
}
