package fanout

import (
	"slices"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// Holds is what a client holds of a type, as far as that is known by its position,
// against what there is now.
type Holds struct {
	Type  *resource.Type
	State State
	// Same is how many resources it holds as they are now.
	Same int
	// Lacks is what it holds otherwise, or not at all. It is empty where the state is
	// Unknown: then nothing is known of what it holds.
	Lacks []Lacking
}

// Lacking is a resource that a client does not hold as it is now.
type Lacking struct {
	cache.Lack
	// State is NotSent where it was not told, Stale where it has not answered, and
	// Nacked where it rejected the response.
	State State
}

// Holdings are those of the types that the stream has now.
func (c client) Holdings() []Holds {
	c.mu.Lock()
	var types []Place
	var out []Holds
	for _, ts := range c.types {
		if sub := ts.table.Subscription(&ts.watcher); sub != nil {
			types = append(types, ts.placeLocked(sub, c.delta))
			out = append(out, Holds{Type: ts.table.Type, State: states[ts.standing(ts.table.Head(&ts.watcher).Gen)]})
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

// Lacks tells how many resources the client has as they are, and what it has not.
func (p *Place) Lacks() (same int, lacks []Lacking) {
	found := make(map[string]bool)
	for _, l := range p.Sub.Lacks(p.Acked) {
		key := resource.Canonical(l.Name)
		found[key] = true
		state := Stale
		switch {
		case l.Gen > p.Sent || among(p.untold, key):
			state = NotSent
		case p.Rejected:
			state = Nacked
		}
		lacks = append(lacks, Lacking{l, state})
	}
	told := []*cache.Names{p.untold[0], p.untold[1], p.unacked[0]} // beside positions
	seen := make(map[string]bool)
	for _, sight := range p.Sub.Sights() {
		key := resource.Canonical(sight.Name)
		beside := slices.ContainsFunc(told, func(n *cache.Names) bool { return n.Has(key) })
		switch seen[key] = true; {
		case found[key]:
		case !beside && sight.Resource != nil:
			same++ // also what is sent once more as it is (E3)
		case beside && (sight.Resource != nil || sight.Gen > 0):
			lacks = append(lacks, Lacking{lackOf(sight), p.state(sight)})
		}
	}
	for _, names := range told { // of these a client that came back may hold some
		if names == nil {
			continue
		}
		for _, n := range names.List {
			if !seen[n] && !found[n] {
				seen[n] = true
				lacks = append(lacks, Lacking{cache.Lack{Name: n, Maybe: true}, NotSent})
			}
		}
	}
	return same, lacks
}

// lackOf is a name that a client has to be told whatever its position: since it has
// asked for it just now, or came back with something else of it. What it holds is not
// known.
func lackOf(s cache.Sight) cache.Lack {
	return cache.Lack{Name: s.Name, Gen: s.Gen, Changed: s.Changed, Resource: s.Resource, Maybe: true}
}
