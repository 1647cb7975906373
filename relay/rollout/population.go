package rollout

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// MaxGroups is how many groups of [Canaries.Spread] are counted separately. Clients choose their names, so
// there may be any number; the rest counts as one group.
const MaxGroups = 64

// Group is the clients of one value of [Canaries.Spread], counted by bucket.
type Group struct {
	Buckets [Buckets]uint32
	Clients int
}

// Population is the affected clients that may be canaries: of one node, and merged, of the tier. The
// zero value has none.
type Population struct {
	Groups map[string]*Group
	Rest   *Group // of groups that are not counted separately
}

// Clients returns how many there are.
func (p *Population) Clients() (n int) {
	for g := range p.all() {
		n += g.Clients
	}
	return n
}

// Add counts a client.
func (p *Population) Add(group string, h Hash) {
	g := p.group(group)
	g.Buckets[h.bucket()]++
	g.Clients++
}

// Merge adds the clients of another node.
func (p *Population) Merge(other *Population) {
	for name, from := range other.Groups {
		p.group(name).add(from)
	}
	if other.Rest != nil {
		p.rest().add(other.Rest)
	}
}

func (g *Group) add(from *Group) {
	for b, n := range from.Buckets {
		g.Buckets[b] += n
	}
	g.Clients += from.Clients
}

// group returns the group with a name. If there would be too many, it is the rest.
//
// The groups with the smallest hashes of their names are counted separately. A group that one node does
// not count separately for that reason is not counted separately in the tier either, so the order in
// which clients and nodes arrive does not matter.
func (p *Population) group(name string) *Group {
	if g := p.Groups[name]; g != nil {
		return g
	}
	if p.Groups == nil {
		p.Groups = make(map[string]*Group)
	}
	if len(p.Groups) >= MaxGroups || p.Rest != nil {
		last := slices.MaxFunc(slices.Collect(maps.Keys(p.Groups)), byNameHash)
		if byNameHash(name, last) > 0 {
			return p.rest()
		}
		if len(p.Groups) >= MaxGroups {
			p.rest().add(p.Groups[last])
			delete(p.Groups, last)
		}
	}
	g := new(Group)
	p.Groups[name] = g
	return g
}

func (p *Population) rest() *Group {
	if p.Rest == nil {
		p.Rest = new(Group)
	}
	return p.Rest
}

func byNameHash(a, b string) int {
	return cmp.Or(cmp.Compare(xxhash.Sum64String(a), xxhash.Sum64String(b)), cmp.Compare(a, b))
}

// all goes through the groups in the order of their names. The rest is the last.
func (p *Population) all() func(func(*Group) bool) {
	return func(yield func(*Group) bool) {
		for _, name := range slices.Sorted(maps.Keys(p.Groups)) {
			if !yield(p.Groups[name]) {
				return
			}
		}
		if p.Rest != nil {
			yield(p.Rest)
		}
	}
}

// names returns the names of the groups that all goes through; empty for the rest.
func (p *Population) names() []string {
	names := slices.Sorted(maps.Keys(p.Groups))
	if p.Rest != nil {
		names = append(names, "")
	}
	return names
}
