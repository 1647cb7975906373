package fanout

import (
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

// Holdings compares what the client holds with what there is, type by type in the
// order E1. What it has acknowledged it holds. It costs as much as it subscribes to.
func (c Client) Holdings() []Holds {
	c.stream.mu.Lock()
	var types []typeStatus
	var out []Holds
	for _, ts := range c.stream.types {
		if sub := ts.table.Subscription(&ts.watcher); sub != nil {
			types = append(types, ts.statusLocked(sub, c.stream.delta))
			out = append(out, Holds{Type: ts.table.Type, State: states[ts.standing(ts.table.Head(&ts.watcher).Gen)]})
		}
	}
	c.stream.mu.Unlock()
	for i := range out {
		if out[i].State != Unknown {
			out[i].Same, out[i].Lacks = types[i].lacks()
		}
	}
	return out
}

// lacks tells how many resources the client has as they are, and what it has not.
func (s *typeStatus) lacks() (same int, lacks []Lacking) {
	found := make(map[string]bool)
	for _, l := range s.sub.Lacks(s.acked) {
		found[l.Name] = true
		state := Stale
		switch {
		case l.Gen > s.sent || among(s.untold, resource.Canonical(l.Name)):
			state = NotSent
		case s.rejected:
			state = Nacked
		}
		lacks = append(lacks, Lacking{l, state})
	}
	for _, sight := range s.sub.Sights() {
		switch state := s.state(sight); {
		case sight.Resource == nil || found[sight.Name]:
		case state == Synced:
			same++
		default: // it has asked for the name since
			lacks = append(lacks, Lacking{cache.Lack{Name: sight.Name, Gen: sight.Gen, Changed: sight.Changed, Resource: sight.Resource}, state})
		}
	}
	return same, lacks
}
