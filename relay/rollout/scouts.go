package rollout

import (
	"cmp"
	"math/bits"
	"slices"
)

// A Scout is a client that may be one.
type Scout struct {
	Hash    Hash
	Version string // of the client software: the value of [ScoutsOf.By]
	// Sees has a bit for each type with changes that the client sees; 0 if that is not known.
	Sees uint64
}

// ScoutsAmong returns at most so many scouts, from clients in the order of their hashes. First, each
// software version has one, versions with more clients before others: the client that sees the most types
// with changes. Then, versions whose scouts do not see a type that another of their clients sees have
// further ones: a change that no scout sees would be shown first where far more clients get it.
func ScoutsAmong(all []Scout, most int) (scouts []Scout) {
	versions := versionsOf(all)
	for further := false; len(scouts) < most; further = true {
		before := len(scouts)
		for _, v := range versions {
			if best := v.next(further); best != nil && len(scouts) < most {
				v.seen |= best.Sees
				scouts = append(scouts, *best)
			}
		}
		if len(scouts) == before {
			break
		}
	}
	return scouts
}

// version is the clients of one software version. seen is what its scouts see.
type version struct {
	name    string
	clients []Scout
	seen    uint64
}

// versionsOf returns the versions, those with the most clients first.
func versionsOf(all []Scout) (versions []*version) {
	by := make(map[string]*version)
	for _, one := range all {
		v := by[one.Version]
		if v == nil {
			v = &version{name: one.Version}
			by[one.Version], versions = v, append(versions, v)
		}
		v.clients = append(v.clients, one)
	}
	slices.SortFunc(versions, func(a, b *version) int {
		return cmp.Or(cmp.Compare(len(b.clients), len(a.clients)), cmp.Compare(a.name, b.name))
	})
	return versions
}

// next returns the client that sees the most types which no scout of the version sees. The further ones see
// at least one.
func (v *version) next(further bool) (best *Scout) {
	most := 0
	for i := range v.clients {
		more := bits.OnesCount64(v.clients[i].Sees &^ v.seen)
		if more > most || best == nil && !further {
			best, most = &v.clients[i], more
		}
	}
	return best
}
