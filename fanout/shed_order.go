package fanout

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"xdsrelay/relay/cache"
)

// settlingTime is how long after a client connected it leaves only if all others do: a load
// balancer may bring it back to the same node each time.
const settlingTime = 10 * time.Minute

// shedRank is what a client connection has that matters for which ones leave a node that has
// too many.
//
// Clients choose where they connect next, so nobody can send one to a node that has its key.
// What helps is the choice of who leaves: a key without clients costs this node neither memory
// nor a stream to the key's owner, and a client of a key that many others here have frees
// nothing, and brings the key to a node that may not have had it.
type shedRank struct {
	recent  bool   // it connected less than settlingTime ago
	private bool   // its key is its own: it costs as much on any node, and is fetched again
	alike   int    // how many clients of its key the node has, this one included
	draw    uint64 // of its key, the same on all nodes: so clients of one key leave together
}

// compare is negative where a leaves before b.
func (a shedRank) compare(b shedRank) int {
	return cmp.Or(yes(a.recent)-yes(b.recent), yes(a.private)-yes(b.private), a.alike-b.alike, cmp.Compare(a.draw, b.draw))
}

func yes(is bool) int {
	if is {
		return 1
	}
	return 0
}

// inShedOrder sorts connections by which should leave first.
func (s *Server) inShedOrder(all []*guest, now time.Time) {
	type key struct {
		alike int
		draw  uint64
	}
	keys := make(map[*cache.Group]*key)
	for _, g := range all {
		for _, st := range g.states {
			of := st.groupNow()
			k := keys[of]
			if k == nil {
				k = &key{}
				if of != nil {
					k.draw = xxhash.Sum64String(string(of.Key))
				}
				keys[of] = k
			}
			k.alike++
		}
	}
	as := make(map[*guest]shedRank, len(all))
	for _, g := range all {
		var l shedRank
		for _, st := range g.states {
			of := st.groupNow()
			l.recent = l.recent || now.Sub(s.timeOf(st.since)) < settlingTime
			l.private = l.private || of != nil && of.Private()
			if k := keys[of]; k != nil && k.alike > l.alike { // one with several keys frees the smaller ones at most
				l.alike, l.draw = k.alike, k.draw
			}
		}
		as[g] = l
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(a, b *guest) int { return as[a].compare(as[b]) })
}
