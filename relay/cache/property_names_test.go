package cache

import (
	"strings"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

// kind says which names a machine uses.
type kind struct {
	aliases bool // resources have aliases
	globs   bool // names have structure, have several spellings, or are globs
}

const below = "xdstp://o/envoy.config.cluster.v3.Cluster/"

var (
	genPlain = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}), 0, 4)
	genURNs  = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
		return spell(t, rapid.SampledFrom([]string{
			"a", "a/*", below + "a", below + "a/x", below + "a/y", below + "a/*", below + "a/b/x", below + "a/b/*", below + "*",
			below + "a/x?p=1&q=2", below + "a/*?p=1&q=2",
		}).Draw(t, "name"))
	}), 0, 4)
)

func (k kind) names() *rapid.Generator[[]string] {
	if k.globs {
		return genURNs
	}
	return genPlain
}

func (k kind) spell(t *rapid.T, name string) string {
	if k.globs {
		return spell(t, name)
	}
	return name
}

// spell returns one of the spellings of a name.
func spell(t *rapid.T, name string) string {
	if !resource.IsURN(name) {
		return name
	}
	switch rapid.IntRange(0, 3).Draw(t, "spelling") {
	case 0:
		return strings.ReplaceAll(name, "?p=1&q=2", "?q=2&p=1")
	case 1:
		return strings.ReplaceAll(name, "Cluster/a", "Cluster/%61")
	default:
		return name
	}
}

// floor is up to where some removals may be forgotten.
func (m *machine) floor() uint64 {
	return m.table.floor()
}
