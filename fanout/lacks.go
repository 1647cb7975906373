package fanout

import (
	"slices"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// TypeDiff compares what a client holds of a type, as far as its position shows, with the current
// content.
type TypeDiff struct {
	Type  *resource.Type
	State State
	// Same is how many resources it holds in their current state.
	Same int
	// Lacks are the resources that it does not hold in their current state. It is empty if State is
	// Unknown: then the holdings are unknown.
	Lacks []DiffEntry
}

// DiffEntry is a resource that a client does not hold in its current state.
type DiffEntry struct {
	cache.Lack
	// State is NotSent if the resource was not sent, Stale if the client has not answered it, and
	// Nacked if the client rejected the response.
	State State
}

// Holdings compares the types that the stream has now.
func (c client) Holdings() []TypeDiff {
	c.mu.Lock()
	var types []Place
	var out []TypeDiff
	for _, ts := range c.types {
		if sub := ts.table.Subscription(&ts.watcher); sub != nil {
			types = append(types, c.placeLocked(ts, sub))
			out = append(out, TypeDiff{Type: ts.table.Type, State: states[ts.standing(ts.table.State(&ts.watcher).Gen)]})
		}
	}
	c.mu.Unlock()
	for i := range out {
		if out[i].State != Unknown {
			out[i].Same, out[i].Lacks = types[i].Lacks()
		}
	}
	return out
}

// Lacks returns how many resources the client holds in their current state, and which ones it does
// not.
func (p *Place) Lacks() (same int, lacks []DiffEntry) {
	found := make(map[string]bool)
	for _, l := range p.Sub.Lacks(p.Acked) {
		key := resource.Canonical(l.Name)
		found[key] = true
		state := Stale
		switch {
		case l.Gen > p.Sent || among(p.unsent, key):
			state = NotSent
		case p.Rejected:
			state = Nacked
		}
		lacks = append(lacks, DiffEntry{l, state})
	}
	forced := []*cache.Names{p.unsent[0], p.unsent[1], p.unacked[0]} // to be sent whatever the position
	seen := make(map[string]bool)
	for _, sight := range p.Sub.Sights(p.view) {
		key := resource.Canonical(sight.Name)
		beside := slices.ContainsFunc(forced, func(n *cache.Names) bool { return n.Has(key) })
		switch seen[key] = true; {
		case found[key]:
		case !beside && sight.Resource != nil:
			same++ // includes resources that are sent again unchanged (E3)
		case beside && (sight.Resource != nil || sight.Gen > 0):
			lacks = append(lacks, DiffEntry{lackOf(sight), p.state(sight)})
		}
	}
	for _, names := range forced { // a reconnected client may hold some of these
		if names == nil {
			continue
		}
		for _, n := range names.List {
			if !seen[n] && !found[n] {
				seen[n] = true
				lacks = append(lacks, DiffEntry{cache.Lack{Name: n, Maybe: true}, NotSent})
			}
		}
	}
	return same, lacks
}

// lackOf describes a name that must be sent to a client whatever its position: because the client
// just subscribed to it, or reconnected with another version of it. The client's version is
// unknown.
func lackOf(s cache.Sight) cache.Lack {
	return cache.Lack{Name: s.Name, Gen: s.Gen, Changed: s.Changed, Resource: s.Resource, Maybe: true}
}
