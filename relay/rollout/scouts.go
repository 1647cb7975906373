package rollout

import (
	"cmp"
	"maps"
	"slices"
)

// MaxVersions is how many software versions are counted separately. Clients choose their names.
const MaxVersions = 1024

// Version is the clients of one value of [ScoutsOf.By].
type Version struct {
	Name    string
	Clients int
	First   Hash // the smallest hash of those that may be canaries
}

// Versions counts clients by software version: those of one node, and merged, those of the tier. The
// zero value has none.
type Versions struct {
	All map[string]Version
}

// Add counts a client.
func (v *Versions) Add(name string, h Hash) { v.add(Version{name, 1, h}) }

// Merge adds the clients of another node.
func (v *Versions) Merge(other *Versions) {
	for _, name := range slices.SortedFunc(maps.Keys(other.All), byNameHash) {
		v.add(other.All[name])
	}
}

// add counts clients of one version. If there would be too many versions, those whose names have the
// largest hashes are not counted, on each node alike.
func (v *Versions) add(more Version) {
	have, is := v.All[more.Name]
	if is {
		v.All[more.Name] = Version{more.Name, have.Clients + more.Clients, min(have.First, more.First)}
		return
	}
	if v.All == nil {
		v.All = make(map[string]Version)
	}
	if len(v.All) >= MaxVersions {
		last := slices.MaxFunc(slices.Collect(maps.Keys(v.All)), byNameHash)
		if byNameHash(more.Name, last) > 0 {
			return
		}
		delete(v.All, last)
	}
	v.All[more.Name] = more
}

// Choose returns the scouts: one for each version, of at most so many versions. Those with the most
// clients are first. Scouts with one hash, which are one client, count once.
func (v *Versions) Choose(most int) (scouts []Version) {
	all := slices.SortedFunc(maps.Values(v.All), func(a, b Version) int {
		return cmp.Or(cmp.Compare(b.Clients, a.Clients), cmp.Compare(a.Name, b.Name))
	})
	for _, version := range all {
		if len(scouts) < most && !slices.ContainsFunc(scouts, func(s Version) bool { return s.First == version.First }) {
			scouts = append(scouts, version)
		}
	}
	return scouts
}
